import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import { StoreUnavailableError } from '../../src/ledger/contract/ledger-store.ts';
import { requestTime } from '../../src/ledger/contract/request-ids.ts';
import { changed } from './changed.ts';
import type { GatewayPlants } from './gateway.ts';
import type { StoreServerOptions } from './store-server.ts';
import type { Fault, Swarm } from './swarm.ts';

/** A planted bug, which the simulation must find. */
export interface Plant extends GatewayPlants {
  readonly server?: StoreServerOptions['plant'];
  /** Faults that expose the bug, where random ones take long. */
  readonly focus?: readonly Fault[];
  /** Circumstances that expose the bug. */
  readonly swarm?: (swarm: Swarm) => Swarm;
}

/** Known bugs of other ledgers, and bugs that would break the exactness of this one. */
export const PLANTS: Readonly<Record<string, Plant>> = {
  'a settle is posted again when it is repeated': {
    server: (store) =>
      changed(store, {
        settle: async (command) => {
          const result = await store.settle(command);
          if (result.code !== 'duplicate' || command.amount === 0n) return result;
          const { account, requestId, amount: delta } = command;
          await store.adjust({ account, id: `${requestId}-${result.now}`, delta: -delta, reason: 'again' });
          return result;
        },
      }),
  },
  'a void of an unknown request leaves no tombstone': {
    focus: ['partition', 'reset'],
    server: (store) =>
      changed(store, {
        void: async (command) => {
          const known = await store.request(command.account, command.requestId);
          return known ? store.void(command) : { code: 'planted', ...(await stampOf(store, command)) };
        },
      }),
  },
  'an admit is taken however late it comes': {
    server: (store) =>
      changed(store, { admit: (command) => store.admit({ ...command, notAfter: Infinity }) }),
  },
  'a late settle is refused': {
    focus: ['stall'],
    server: (store) =>
      changed(store, {
        settle: async (command) => {
          const known = await store.request(command.account, command.requestId);
          if (known?.state !== 'expired') return store.settle(command);
          return { code: 'duplicate', charged: known.amount, ...(await stampOf(store, command)) };
        },
      }),
  },
  'a late settle is posted beside what its expiry charged': {
    focus: ['stall'],
    server: (store) =>
      changed(store, {
        settle: async (command) => {
          const known = await store.request(command.account, command.requestId);
          if (known?.state !== 'expired') return store.settle(command);
          return store.settle({ ...command, amount: command.amount + known.amount });
        },
      }),
  },
  'an orphan settle is refused': {
    focus: ['failover', 'crash'],
    server: (store) => changed(store, { settle: (command) => store.settle({ ...command, force: false }) }),
  },
  'leases never end': {
    server: (store) =>
      changed(store, {
        admit: (command) => store.admit({ ...command, leaseMs: 1e12 }),
        extend: (command) => store.extend({ ...command, leaseMs: 1e12 }),
      }),
  },
  'the settlement is a cent too much': {
    store: (store) =>
      changed(store, {
        settle: (command) => store.settle({ ...command, amount: command.amount + 10_000_000n }),
      }),
  },
  'a checkpoint is all that is held': {
    store: (store) =>
      changed(store, { extend: (command) => store.extend({ ...command, checkpoint: command.hold }) }),
  },
  'a settle that got no answer is taken for done': {
    focus: ['outage', 'partition'],
    wire: (store) => changed(store, { settle: (command) => once(store, command) }),
  },
  'an admit that got no answer is taken for refused': {
    focus: ['reset', 'partition'],
    wire: (store) =>
      changed(store, {
        admit: async (command) => {
          try {
            return await store.admit(command);
          } catch (error) {
            throw error instanceof StoreUnavailableError
              ? new StoreUnavailableError('no', { cause: error })
              : error;
          }
        },
      }),
  },
  'the outbox is written when there is time': {
    focus: ['kill', 'outage'],
    disk: (files) =>
      changed(files, {
        create: () => {
          const file = files.create();
          let waiting: Buffer[] = [];
          return changed(file, {
            write: (bytes) => {
              waiting.push(bytes);
            },
            sync: async () => {
              const bytes = Buffer.concat(waiting);
              waiting = [];
              file.write(bytes);
              await file.sync();
            },
          });
        },
      }),
  },
  'what was found in an outbox is thrown away': {
    focus: ['kill', 'outage'],
    disk: (files) => changed(files, { read: () => Buffer.alloc(0) }),
  },
  'grants that a failover took are not repeated': {
    focus: ['failover', 'crash'],
    wire: (store) => {
      const acknowledged = new Set<string>();
      return changed(store, {
        grant: async (command) => {
          const { account, id } = command;
          if (acknowledged.has(id)) {
            return {
              code: 'duplicate',
              available: 0n,
              ...(await stampOf(store, { account, requestId: NOBODYS })),
            };
          }
          const result = await store.grant(command);
          acknowledged.add(id);
          return result;
        },
      });
    },
  },
  'settles that a failover took are not repeated': {
    focus: ['failover', 'crash'],
    wire: (store) => {
      const acknowledged = new Set<string>();
      return changed(store, {
        settle: async (command) => {
          const { requestId, amount: charged } = command;
          if (acknowledged.has(requestId)) {
            return { code: 'duplicate', charged, ...(await stampOf(store, command)) };
          }
          const result = await store.settle(command);
          acknowledged.add(requestId);
          return result;
        },
      });
    },
  },
  'nobody looks for what a failover took': {
    focus: ['failover', 'crash'],
    wire: (store) => changed(store, { mayRollBack: false }),
  },
  'holds that a failover took are not taken again': {
    focus: ['failover', 'crash'],
    wire: (store) =>
      changed(store, {
        admit: async (command) =>
          command.restore
            ? { code: 'no_funds', available: 0n, ...(await stampOf(store, command)) }
            : store.admit(command),
      }),
  },
  'a hold is taken twice': {
    server: (store) =>
      changed(store, {
        admit: async (command) => {
          const result = await store.admit(command);
          if (result.code !== 'exists') return result;
          const requestId = command.requestId.slice(0, -6) + '000000';
          await store.admit({ ...command, requestId });
          return result;
        },
      }),
  },
  'a balance may be overdrawn by those who ask at once': {
    server: (store) =>
      changed(store, {
        admit: async (command) => {
          const result = await store.admit(command);
          if (result.code !== 'no_funds') return result;
          return { code: 'ok', hold: command.want, available: 0n, now: result.now, seq: result.seq };
        },
      }),
  },
  'a grant is added each time it is repeated': {
    server: (store) =>
      changed(store, {
        grant: async (command) => {
          const result = await store.grant(command);
          if (result.code !== 'duplicate') return result;
          return store.grant({ ...command, id: `${command.id}-${result.now}` });
        },
      }),
  },
  'a grant is called durable before it is': {
    focus: ['failover', 'power cut'],
    wire: (store) =>
      changed(store, { grant: async (command) => ({ ...(await store.grant(command)), durable: true }) }),
  },
  'a frozen account admits': {
    server: (store) =>
      changed(store, {
        admit: async (command) => {
          await store.freeze(command.account, false);
          return store.admit(command);
        },
      }),
  },
  'request ids are made by the clock of the gateway': {
    focus: ['gateway clock'],
    idClock: () => Date.now(),
  },
  'a revoked key is active again after a failover': {
    focus: ['failover', 'crash'],
    wire: (store) => {
      const revoked = new Set<string>();
      return changed(store, {
        revokeKey: async (account, key) => {
          if (revoked.has(`${account} ${key}`)) return true;
          const known = await store.revokeKey(account, key);
          if (known) revoked.add(`${account} ${key}`);
          return known;
        },
      });
    },
  },
};

/** Reports success, whatever the result. */
async function once(
  store: LedgerStore,
  command: Parameters<LedgerStore['settle']>[0],
): Promise<Awaited<ReturnType<LedgerStore['settle']>>> {
  try {
    return await store.settle(command);
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    const { requestId, amount: charged } = command;
    return { code: 'duplicate', charged, now: requestTime(requestId), seq: 0n };
  }
}

/** Time and journal position, as in a reply. */
async function stampOf(
  store: LedgerStore,
  { account, requestId }: { readonly account: string; readonly requestId: string },
): Promise<{ readonly now: number; readonly seq: bigint }> {
  const { now, seq } = await store.extend({ account, requestId, hold: 0n, leaseMs: 1, checkpoint: 0n });
  return { now, seq };
}

const NOBODYS = '0000000000000000000';
