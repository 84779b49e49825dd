import type { JSX } from 'preact';

import { grouped, money, percent, plural } from '../../../page/format.ts';
import { ChargedTile, RequestsTile, Tile, TokensTile } from '../../../page/usage/tile.tsx';
import { type AccountLine, isLow } from './account-lines.ts';
import type { RangeUsage } from '../../../page/usage/range-usage.ts';
import { type Sums, sum } from '../../../page/usage/sums.ts';

export interface TilesProps {
  readonly usage: RangeUsage;
  /** Of the shown account, or of all; undefined until loaded. */
  readonly lines: readonly AccountLine[] | undefined;
  /** `''` for all. */
  readonly account: string;
}

/** Totals of a range of days. */
export function Tiles({ usage, lines, account }: TilesProps): JSX.Element {
  const sums = sum(usage.models);
  return (
    <section class="tiles" aria-label="Summary">
      <ChargedTile usage={usage} charged={sums.charged} />
      <MarginTile sums={sums} />
      <RequestsTile sums={sums} />
      <TokensTile sums={sums} />
      <BalanceTile lines={lines} account={account} />
    </section>
  );
}

function MarginTile({ sums: { charged, cost, costed } }: { readonly sums: Sums }): JSX.Element {
  if (cost === 0n) return <Tile id="margin" title="Margin" figure="–" notes={['cost unknown']} />;
  const notes = [`${percent(costed - cost, costed)} · cost ${money(cost)}`];
  if (costed < charged) notes.push(`known for ${percent(costed, charged)}`);
  return <Tile id="margin" title="Margin" figure={money(costed - cost)} notes={notes} />;
}

function BalanceTile({ lines, account }: Omit<TilesProps, 'usage'>): JSX.Element {
  if (!lines) return <Tile id="balance" title="Balance" figure="…" notes={[]} />;
  const low = lines.filter(isLow).length;
  const total = (of: 'balance' | 'held'): string => money(lines.reduce((sum, line) => sum + line[of], 0n));
  const accounts = account === '' ? `${plural(lines.length, 'account')} · ` : '';
  const warning = account === '' ? `${grouped(low)} low` : 'low';
  return (
    <Tile
      id="balance"
      title="Balance"
      figure={total('balance')}
      notes={[`${accounts}${total('held')} held`]}
      warning={low > 0 ? warning : undefined}
    />
  );
}
