import type { JSX } from 'preact';

import { money, percent, short } from '../format.ts';
import type { RangeUsage } from './range-usage.ts';
import type { Sums } from './sums.ts';

export interface TileProps {
  readonly id: string;
  readonly title: string;
  readonly figure: string;
  /** A line each. */
  readonly notes: readonly string[];
  readonly warning?: string | undefined;
}

export function Tile({ id, title, figure, notes, warning }: TileProps): JSX.Element {
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

/** The charges, and how they compare with the days before. */
export function ChargedTile({
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

export function RequestsTile({ sums }: { readonly sums: Sums }): JSX.Element {
  return <Tile id="requests" title="Requests" figure={short(sums.requests)} notes={requestNotes(sums)} />;
}

export function TokensTile({ sums }: { readonly sums: Sums }): JSX.Element {
  return <Tile id="tokens" title="Tokens" figure={short(sums.tokens)} notes={tokenNotes(sums)} />;
}

function requestNotes({ requests, errors, aborted }: Sums): string[] {
  if (requests === 0) return ['none'];
  return [`${percent(errors, requests)} errors · ${percent(aborted, requests)} aborted`];
}

function tokenNotes({ tokens, prompt, cached, completion }: Sums): string[] {
  if (tokens === 0) return ['none'];
  return [`${short(prompt)} in, ${percent(cached, prompt)} cached`, `${short(completion)} out`];
}
