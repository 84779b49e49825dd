import type { UsageRow } from '../api-rows.ts';
import { plural, money, short } from '../format.ts';
import type { Fact, PointDetails } from '../tooltip.tsx';
import type { RangeUsage } from './data.ts';
import { byCharge, type Sums, sum } from './sums.ts';
import { REST } from './tones.ts';
import { factsOf } from './units.ts';

/** What may get a rank. */
export interface Candidate {
  readonly name: string;
  /** Stands fainter after the name. */
  readonly detail?: string;
  readonly tone: string;
  readonly rows: readonly UsageRow[];
  /** What is said of it before its usage. */
  readonly about?: readonly Fact[];
}

export interface Rank {
  readonly name: string;
  readonly detail?: string | undefined;
  readonly tone: string;
  /** Of the first one's, from 0 to 1. */
  readonly share: number;
  readonly value: string;
  readonly note: string;
  readonly point: PointDetails;
}

/** How many are ranked; the others come last, as one. */
const RANKS = 8;

/** Ranks by charge, or, where nothing was charged, by requests. */
export function rank(candidates: readonly Candidate[]): Rank[] {
  const order = candidates.map((one) => ({ ...one, sums: sum(one.rows) })).sort(byCharge);
  if (order.length > RANKS + 1) {
    const others = order.splice(RANKS);
    const rows = others.flatMap(({ rows }) => rows);
    order.push({ name: `${others.length} others`, tone: REST, rows, sums: sum(rows) });
  }
  const isCharged = order.some(({ sums }) => sums.charged > 0n);
  const size = ({ charged, requests }: Sums): number => (isCharged ? Number(charged) : requests);
  const most = Math.max(...order.map(({ sums }) => size(sums)), 1);
  return order.map(({ name, detail, tone, about = [], sums }) => {
    const value = money(sums.charged);
    return {
      name,
      detail,
      tone,
      share: size(sums) / most,
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
