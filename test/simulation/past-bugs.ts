import { affordableOutputTokens, withSearches } from '../../src/metering/estimate.ts';
import {
  AccountLostError,
  type LedgerStore,
  StoreUnavailableError,
} from '../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../src/ledger/stores/memory/memory-store.ts';
import { changed } from './changed.ts';
import type { Plant } from './plants.ts';
import type { Swarm } from './swarm.ts';

/**
 * Bugs that this ledger had, as they were. What each entry is for:
 *
 * | what went wrong                                             | which entries                                      |
 * | ----------------------------------------------------------- | -------------------------------------------------- |
 * | a repaired charge was written off while its money came back | "written off"                                      |
 * | charges vanished in a failover to a replica that lagged     | "newest change", "another server"                  |
 * | an idempotency key was charged twice after a rollback       | "no idempotency key", "forgets"                    |
 * | a gateway did not come back                                 | "has ended"                                        |
 * | a known account was made again on an empty node             | "is made again" (3)                                |
 * | a client paid that hung up before anything was sent         | "dispatched"                                       |
 * | what was delivered of a cut JSON answer was free            | "cut JSON"                                         |
 * | `clamp` allowed more output than the hold covers            | "likely prompt"                                    |
 * | 503, and `rollback`, where nothing was wrong                | "overtaken" (2)                                    |
 * | a step of the clock ended a live lease                      | "step of the clock"; SQLite and Redis have theirs  |
 * |                                                             | in `clock-steps.test.ts`                           |
 */
export const PAST_BUGS: Readonly<Record<string, Plant>> = {
  'what a repair finds no money for is written off': {
    focus: ['failover', 'crash'],
    wire: (store) =>
      changed(store, {
        settle: async (command) => {
          const reply = await store.settle(without(command, 'inParts', 'witnesses', 'wasAdmitted'));
          return reply.code === 'ok' ? { ...reply, charged: reply.charged + reply.writtenOff } : reply;
        },
      }),
  },
  'only the newest change is looked for': {
    focus: ['failover', 'silent failover'],
    wire: (store) =>
      changed(store, {
        settle: ({ witnesses = [], ...command }) =>
          store.settle({ ...command, wasAdmitted: false, witnesses: witnesses.slice(0, 1) }),
        extend: ({ witnesses = [], ...command }) =>
          store.extend({ ...command, witnesses: witnesses.slice(0, 1) }),
        verify: async (command) => {
          const reply = await store.verify(command);
          const newest = command.witnesses.findLastIndex(({ type }) => type === 'line');
          const { code, now, seq } = reply;
          return reply.missing?.includes(newest) ? reply : { code, now, seq };
        },
      }),
  },
  'another server is not noticed': {
    focus: ['takeover'],
    wire: (store) => changed(store, { onConnectionLost: () => {} }),
  },
  'a charge has no idempotency key': {
    focus: ['failover', 'crash'],
    store: (store) =>
      changed(store, { settle: (command) => store.settle(without(command, 'idempotencyKey')) }),
  },
  'a repair forgets the idempotency key of a hold': {
    focus: ['failover', 'crash'],
    wire: (store) =>
      changed(store, {
        admit: ({ idempotencyKey, ...command }) =>
          store.admit({ ...command, ...(idempotencyKey && !command.restore && { idempotencyKey }) }),
      }),
  },
  'a client of the store that has ended is not replaced': {
    focus: ['outage', 'partition'],
    wire: (store) => endingAfter(store, 20),
  },
  'a lost account is made again by a grant': {
    focus: ['flush', 'empty restart'],
    wire: (store) => changed(store, { grant: (command) => store.grant({ ...command, mustExist: false }) }),
  },
  'a lost account is made again by a key': {
    focus: ['flush', 'empty restart'],
    wire: (store) =>
      changed(store, { createKey: (command) => store.createKey({ ...command, mustExist: false }) }),
  },
  'a lost account is made again, once an adjustment found none': {
    focus: ['flush', 'empty restart'],
    store: (store) =>
      changed(store, {
        adjust: async (command) => {
          try {
            return await store.adjust(command);
          } catch (error) {
            if (!(error instanceof AccountLostError)) throw error;
            return { code: 'no_account', now: Date.now(), seq: 0n };
          }
        },
      }),
  },
  'a request counts as dispatched before it is sent': {
    outcome: (outcome) => ({
      ...outcome,
      dispatched: outcome.dispatched || outcome.ending === 'client_gone',
    }),
  },
  'what is open of a cut JSON answer is not counted': {
    meter: (meter) => {
      let isOpen = false;
      return changed(meter, {
        write: (bytes) => {
          const text = String(bytes);
          isOpen = text.endsWith('}') ? false : isOpen || text.startsWith('{');
          meter.write(bytes);
        },
        get delivered() {
          return isOpen ? { ascii: 0, nonAscii: 0 } : meter.delivered;
        },
      });
    },
  },
  'output is limited beside the likely prompt': {
    swarm: (swarm) => ({ ...swarm, habits: { ...swarm.habits, dense: 1 } }),
    quote: (quote) => ({ ...quote, promptTokensAtMost: quote.promptTokensNeeded, webSearchesNeeded: 0 }),
    outputLimit: ({ amount, terms: { quote } }) => {
      if (amount >= quote.maximum) return undefined;
      const limit = affordableOutputTokens(amount, quote.promptTokens, withSearches(quote, 0));
      return limit < quote.outputCap ? limit : undefined;
    },
  },
  'an admit whose answer was overtaken is refused': {
    swarm: withoutFaults,
    wire: (store) =>
      overtaken(store, () => {
        throw new StoreUnavailableError('no');
      }),
  },
  'an admit whose answer was overtaken is taken for a rollback': {
    wire: (store) => overtaken(store, ({ now, seq }) => ({ code: 'rolled_back', now, seq })),
  },
  'a step of the clock ends leases': {
    focus: ['store clock'],
    server: (_store, now) => new MemoryStore({ now }),
  },
};

function without<T extends object, Name extends keyof T>(
  command: T,
  ...names: readonly Name[]
): Omit<T, Name> {
  const rest = { ...command };
  for (const name of names) delete rest[name];
  return rest;
}

/** A world without faults. */
function withoutFaults(swarm: Swarm): Swarm {
  const network = { dropRequest: 0, dropReply: 0, duplicate: 0, delay: 0, refuse: 0, latencyMs: 50 };
  return { ...swarm, faults: new Map(), clockOffsets: swarm.clockOffsets.map(() => 0), network };
}

/** A client that gives up permanently after this many consecutive failures. */
function endingAfter(store: LedgerStore, most: number): LedgerStore {
  let failures = 0;
  return new Proxy(store, {
    get(target, name) {
      const own: unknown = Reflect.get(target, name);
      if (typeof own !== 'function') return own;
      return async (...args: readonly unknown[]): Promise<unknown> => {
        if (failures >= most) throw new StoreUnavailableError('no');
        try {
          const reply: unknown = await own.apply(target, args);
          failures = 0;
          return reply;
        } catch (error) {
          failures += 1;
          throw error;
        }
      };
    },
  });
}

/** Mistakes an overtaken reply for that of an account that was rolled back. */
function overtaken(
  store: LedgerStore,
  instead: (stamp: {
    readonly now: number;
    readonly seq: bigint;
  }) => Awaited<ReturnType<LedgerStore['admit']>>,
): LedgerStore {
  const last = new Map<string, bigint>();
  const hear = <T extends { readonly seq: bigint }>(account: string, reply: T): T => {
    last.set(account, reply.seq);
    return reply;
  };
  return changed(store, {
    admit: async (command) => {
      const reply = await store.admit(command);
      const isOld = reply.seq < (last.get(command.account) ?? 0n);
      return isOld ? instead(hear(command.account, reply)) : hear(command.account, reply);
    },
    settle: async (command) => hear(command.account, await store.settle(command)),
  });
}
