import type { KeyLimits } from '../../src/ledger/contract/key-records.ts';
import type { NetworkFaults } from './connection.ts';
import type { GatewayTerms } from './gateway.ts';
import type { Habits } from './provider.ts';
import { priceOf } from './provider.ts';
import type { Random } from './random.ts';

/** All kinds of faults; each seed uses some of them. */
export const FAULTS = [
  'partition',
  'reset',
  'outage',
  'crash',
  'failover',
  'silent failover',
  'takeover',
  'empty restart',
  'flush',
  'kill',
  'power cut',
  'stop',
  'stall',
  'gateway clock',
  'store clock',
  'full disk',
] as const;
export type Fault = (typeof FAULTS)[number];

export interface Account {
  readonly id: string;
  readonly externalKeys: boolean;
  readonly opening: bigint;
  /** For all of its keys together. */
  readonly limits: KeyLimits | undefined;
  readonly keys: readonly { readonly id: string; readonly limits: KeyLimits | undefined }[];
}

/** Everything that a seed decides in advance. */
export interface Swarm {
  readonly startsAt: number;
  readonly gateways: number;
  /** Gateway n is on machine n modulo this. */
  readonly machines: number;
  /** Error of the clock of each gateway at its start, in ms. */
  readonly clockOffsets: readonly number[];
  readonly requests: number;
  readonly accounts: readonly Account[];
  readonly terms: GatewayTerms;
  readonly habits: Habits;
  readonly network: NetworkFaults;
  /** How often each of these happens. */
  readonly faults: ReadonlyMap<Fault, number>;
  /** Maximum lag of a replica, and maximum time between disk syncs. */
  readonly lagMs: number;
  readonly operations: number;
  /** Whether operators also freeze accounts and revoke keys. */
  readonly sanctions: number;
}

/** @param focus - faults that must happen, often */
export function drawSwarm(random: Random, focus: readonly Fault[] = []): Swarm {
  const some = (most: number, chance = 0.5): number => (random.chance(chance) ? random.skewed(0, most) : 0);
  const leaseMs = random.pick([120_000, 120_000, 30_000, 10_000]);
  const gateways = random.between(1, 4);
  // Half of the seeds have few faults of many kinds, the others many faults of few kinds.
  const kinds = random.pick([0, 1, 2, 3, 6]);
  const faults = new Map<Fault, number>();
  for (let n = 0; n < kinds; n++) faults.set(random.pick(FAULTS), random.between(1, 3));
  for (const each of focus) faults.set(each, 6);
  const isReliable = focus.length > 0 || random.chance(0.9);
  if (!isReliable) for (const each of FAULTS) if (isRollback(each)) faults.delete(each);
  return {
    startsAt: random.chance(0.2) ? EVE : NOON,
    gateways,
    machines: random.between(1, gateways),
    clockOffsets: Array.from({ length: gateways }, () =>
      random.chance(0.1) ? random.pick(WRONG_CLOCKS) : 0,
    ),
    requests: Math.floor(random.skewed(10, 150)),
    accounts: Array.from({ length: random.between(1, 3) }, (_, n) => drawAccount(random, `account${n}`)),
    terms: {
      leaseMs,
      renewMs: leaseMs / 4,
      holdMode: random.pick(['clamp', 'strict', 'adaptive']),
      isReliable,
      hasOutbox: random.chance(0.7),
      durableAfterMs: random.chance(0.5) ? Math.floor(random.skewed(1, 1500)) : undefined,
      tellsIdentity: random.chance(0.7),
      idleMs: 20_000,
    },
    habits: {
      longestMs: random.pick([2000, 60_000, 180_000]),
      refuses: some(0.3),
      cuts: some(0.4),
      omits: some(0.6),
      lies: random.chance(0.2) ? 0.3 : 0,
      dense: random.chance(0.3) ? 0.5 : 0,
      overDelivers: some(0.4),
      clientsLeave: some(0.6),
      clientsNameRequests: random.pick([0, 0.2, 0.8]),
    },
    network: {
      dropRequest: some(0.1, 0.4),
      dropReply: some(0.1, 0.4),
      duplicate: some(0.2, 0.4),
      delay: some(0.1, 0.4),
      refuse: some(0.1, 0.2),
      latencyMs: random.pick([1, 5, 50, 300]),
    },
    faults,
    lagMs: random.pick([200, 1000, 5000, 5000]),
    operations: random.between(0, 8) + (focus.length > 0 ? 12 : 0),
    sanctions: random.chance(focus.length > 0 ? 0.6 : 0.3) ? random.between(1, 3) : 0,
  };
}

/** Of a Wednesday, in UTC. */
const NOON = Date.UTC(2026, 0, 14, 12);
/** Five minutes later a day, a week and a month begin. */
const EVE = Date.UTC(2026, 4, 31, 23, 55);

/** A little wrong, too far ahead for the store, or a day off. */
const WRONG_CLOCKS = [-86_400_000, -3_600_000, -3000, 3000, 360_000, 86_400_000] as const;

const ROLLBACKS: ReadonlySet<Fault> = new Set<Fault>([
  'crash',
  'failover',
  'silent failover',
  'takeover',
  'empty restart',
  'flush',
]);

/** Faults in which the store loses acknowledged changes, so that repairs are needed. */
export function isRollback(fault: Fault): boolean {
  return ROLLBACKS.has(fault);
}

function drawAccount(random: Random, id: string): Account {
  const externalKeys = random.chance(0.4);
  return {
    id,
    externalKeys,
    // Enough for a few requests at once, or for all of them.
    opening: priceOf(400, 60) * BigInt(random.pick([2, 5, 20, 1000])),
    limits: accountLimits(id),
    keys: Array.from({ length: random.between(1, 2) }, (_, n) => ({
      id: `key${n}`,
      limits: externalKeys || random.chance(0.4) ? undefined : drawLimits(random),
    })),
  };
}

/** Not drawn, so that a seed has the same world with and without them. */
function accountLimits(id: string): KeyLimits | undefined {
  const number = Number(id.replaceAll(/\D/g, ''));
  if (number % 2 === 0) return undefined;
  const budget = { amount: priceOf(400, 60) * 40n, per: 'hour' } as const;
  return { budgets: [budget], requestsPerMinute: 12, tokensPerMinute: 1200, concurrentRequests: 6 };
}

function drawLimits(random: Random): KeyLimits {
  return {
    ...(random.chance(0.5) && {
      budgets: [
        {
          amount: priceOf(400, 60) * BigInt(random.between(1, 30)),
          per: random.pick(['hour', 'day', 'week', 'month', 'lifetime'] as const),
        },
      ],
    }),
    ...(random.chance(0.3) && { requestsPerMinute: random.between(1, 10) }),
    ...(random.chance(0.3) && { tokensPerMinute: random.between(100, 1000) }),
    ...(random.chance(0.3) && { concurrentRequests: random.between(1, 5) }),
  };
}
