import type { JSX } from 'preact';

import { grouped, plural, money, percent, short } from '../format.ts';
import { type AccountLine, isLow } from './account-lines.ts';
import type { RangeUsage } from './data.ts';
import { type Sums, sum } from './sums.ts';

export interface TilesProps {
  readonly usage: RangeUsage;
  /** Of the shown account, or of all. */
  readonly lines: readonly AccountLine[];
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
      <Tile id="requests" title="Requests" figure={short(sums.requests)} notes={requestNotes(sums)} />
      <Tile id="tokens" title="Tokens" figure={short(sums.tokens)} notes={tokenNotes(sums)} />
      <BalanceTile lines={lines} account={account} />
    </section>
  );
}

interface TileProps {
  readonly id: string;
  readonly title: string;
  readonly figure: string;
  /** A line each. */
  readonly notes: readonly string[];
  readonly warning?: string | undefined;
}

function Tile({ id, title, figure, notes, warning }: TileProps): JSX.Element {
  return (
    <div class="card tile">
      <h2>{title}</h2>
      <p class="figure" id={id}>
        {figure}
      </p>
      <p class="faint" id={`${id}-note`}>
        {notes.map((note) => (
          <span key={note}>{note}</span>
        ))}
        {warning !== undefined && <span class="low">{warning}</span>}
      </p>
    </div>
  );
}

function ChargedTile({
  usage,
  charged,
}: {
  readonly usage: RangeUsage;
  readonly charged: bigint;
}): JSX.Element {
  const { days, chargedBefore } = usage;
  const change = percent(charged - chargedBefore, chargedBefore);
  const signed = charged >= chargedBefore ? `+${change}` : change.replace('-', '−');
  const note = chargedBefore === 0n ? `in ${days.length} days` : `${signed} vs. previous ${days.length} days`;
  return <Tile id="charged" title="Charged" figure={money(charged)} notes={[note]} />;
}

function MarginTile({ sums: { charged, cost, costed } }: { readonly sums: Sums }): JSX.Element {
  if (cost === 0n) return <Tile id="margin" title="Margin" figure="–" notes={['cost unknown']} />;
  const notes = [`${percent(costed - cost, costed)} · cost ${money(cost)}`];
  if (costed < charged) notes.push(`known for ${percent(costed, charged)}`);
  return <Tile id="margin" title="Margin" figure={money(costed - cost)} notes={notes} />;
}

function requestNotes({ requests, errors, aborted }: Sums): string[] {
  if (requests === 0) return ['none'];
  return [`${percent(errors, requests)} errors · ${percent(aborted, requests)} aborted`];
}

function tokenNotes({ tokens, prompt, cached, completion }: Sums): string[] {
  if (tokens === 0) return ['none'];
  return [`${short(prompt)} in, ${percent(cached, prompt)} cached`, `${short(completion)} out`];
}

function BalanceTile({ lines, account }: Omit<TilesProps, 'usage'>): JSX.Element {
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
