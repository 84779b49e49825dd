import type { UsageRow } from './range-usage.ts';
import { plural, money, short } from '../format.ts';
import type { Fact, PointDetails } from '../tooltip.tsx';
import type { RangeUsage } from './range-usage.ts';
import { byCharge, type Sums, sum } from './sums.ts';
import { REST } from './tones.ts';
import { factsOf } from './units.ts';

/** A model or key to rank. */
export interface Candidate {
  readonly name: string;
  /** Shown in a fainter color after the name. */
  readonly detail?: string;
  readonly tone: string;
  readonly rows: readonly UsageRow[];
  /** Address of what it is made of. */
  readonly href?: string;
  /** Facts for the tooltip, before its usage. */
  readonly about?: readonly Fact[];
}

export interface Rank {
  readonly name: string;
  readonly detail?: string | undefined;
  readonly href?: string | undefined;
  readonly tone: string;
  /** Relative to the first rank, from 0 to 1. */
  readonly share: number;
  readonly value: string;
  readonly note: string;
  readonly point: PointDetails;
}

/** The others come last, as one. */
const MAX_RANKS = 8;

/** Ranks by charge, or by requests if nothing was charged. */
export function rank(candidates: readonly Candidate[]): Rank[] {
  const order = candidates.map((one) => ({ ...one, sums: sum(one.rows) })).sort(byCharge);
  if (order.length > MAX_RANKS + 1) {
    const others = order.splice(MAX_RANKS);
    const rows = others.flatMap(({ rows }) => rows);
    order.push({ name: `${others.length} others`, tone: REST, rows, sums: sum(rows) });
  }
  const isCharged = order.some(({ sums }) => sums.charged > 0n);
  const size = ({ charged, requests }: Sums): number => (isCharged ? Number(charged) : requests);
  const max = Math.max(...order.map(({ sums }) => size(sums)), 1);
  return order.map(({ name, detail, href, tone, about = [], sums }) => {
    const value = money(sums.charged);
    return {
      name,
      detail,
      href,
      tone,
      share: size(sums) / max,
      value,
      note: plural(sums.requests, 'request', short(sums.requests)),
      point: { title: name, headline: value, parts: about, facts: factsOf(sums, 'charged') },
    };
  });
}

export function modelCandidates({ models }: RangeUsage, tones: ReadonlyMap<string, string>): Candidate[] {
  const rowsOf = Map.groupBy(models, ({ model = '' }) => model);
  return [...rowsOf].map(([name, rows]) => ({ name, tone: tones.get(name) ?? REST, rows }));
}

export function keyCandidates({ keys, keyNames }: RangeUsage): Candidate[] {
  const rowsOf = Map.groupBy(keys, ({ account, key }) => JSON.stringify([account, key]));
  return [...rowsOf].map(([id, rows]) => {
    const { account = '', key = '' } = rows[0] ?? {};
    const about = [
      { name: 'Account', value: account },
      { name: 'Key', value: key },
    ];
    return { name: keyNames.get(id) ?? key, detail: account, tone: 'tone-0', rows, about };
  });
}
