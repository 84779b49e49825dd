import {
  type Admit,
  type AdmitResult,
  type LedgerStore,
  StoreUnavailableError,
} from '../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../src/ledger/stores/memory/memory-store.ts';

type Command = (store: LedgerStore) => Promise<unknown>;

/**
 * A store that can lose what it acknowledged: the commands since some moment, as by
 * the promotion of a replica that lagged behind. And it can be away.
 */
export interface RollbackStore extends LedgerStore {
  mayRollBack: boolean;
  /** Another server may answer from now on. */
  loseConnection(): void;
  /** How many commands it has taken. */
  readonly length: number;
  /** Goes back to when it had taken only so many. */
  rollBackTo(length: number): Promise<void>;
  /**
   * What happens to commands: they are refused, applied without an answer, given up without being applied,
   * or answered.
   */
  fault: 'refuse' | 'lose the answer' | 'lose the command' | undefined;
  /** Names of the commands that were sent, faults included. */
  readonly sent: string[];
}

export function rollbackStore(clock: { now: number }): RollbackStore {
  const log: { readonly at: number; readonly run: Command }[] = [];
  let replayed: number | undefined;
  const now = (): number => replayed ?? clock.now;
  let current = new MemoryStore({ now });
  const sent: string[] = [];
  let onLost: (() => void) | undefined;

  async function command<T>(name: string, run: (store: LedgerStore) => Promise<T>): Promise<T> {
    sent.push(name);
    const { fault } = store;
    if (fault === 'refuse') throw new StoreUnavailableError('no');
    if (fault === 'lose the command') throw new StoreUnavailableError('unknown');
    log.push({ at: clock.now, run });
    const result = await run(current);
    if (fault === 'lose the answer') throw new StoreUnavailableError('unknown');
    return result;
  }

  const store: RollbackStore = {
    mayRollBack: true,
    onConnectionLost: (listener) => (onLost = listener),
    loseConnection: () => onLost?.(),
    fault: undefined,
    sent,
    get length() {
      return log.length;
    },
    rollBackTo: async (length) => {
      log.length = Math.min(log.length, length);
      const fresh = new MemoryStore({ now });
      for (const { at, run } of log) {
        replayed = at;
        await run(fresh);
      }
      replayed = undefined;
      current = fresh;
    },
    admit: (admit: Admit): Promise<AdmitResult> => command('admit', async (to) => to.admit(admit)),
    extend: (extend) => command('extend', async (to) => to.extend(extend)),
    settle: (settle) => command('settle', async (to) => to.settle(settle)),
    void: (release) => command('void', async (to) => to.void(release)),
    grant: (grant) => command('grant', (to) => to.grant(grant)),
    adjust: (adjust) => command('adjust', (to) => to.adjust(adjust)),
    setFloor: (change) => command('setFloor', (to) => to.setFloor(change)),
    allow: (allowance) => command('allow', (to) => to.allow(allowance)),
    endAllowance: (end) => command('endAllowance', (to) => to.endAllowance(end)),
    refund: (refund) => command('refund', (to) => to.refund(refund)),
    deleteAccount: (account) => command('deleteAccount', (to) => to.deleteAccount(account)),
    deletedAccounts: () => current.deletedAccounts(),
    verify: (witnesses) => command('verify', (to) => to.verify(witnesses)),
    sweep: (budget) => command('sweep', (to) => to.sweep(budget)),
    request: (account, requestId) => command('request', (to) => to.request(account, requestId)),
    snapshot: (account) => command('snapshot', (to) => to.snapshot(account)),
    balance: (account) => command('balance', (to) => to.balance(account)),
    journal: (account, afterSeq, limit) => command('journal', (to) => to.journal(account, afterSeq, limit)),
    compact: (account, seq) => command('compact', (to) => to.compact(account, seq)),
    usage: (...query) => command('usage', (to) => to.usage(...query)),
    usageBy: (...query) => command('usageBy', (to) => to.usageBy(...query)),
    compactUsage: (account, beforeDay) =>
      command('compactUsage', (to) => to.compactUsage(account, beforeDay)),
    prune: (account) => command('prune', (to) => to.prune(account)),
    freeze: (account, frozen) => command('freeze', (to) => to.freeze(account, frozen)),
    accounts: () => current.accounts(),
    createKey: (key) => command('createKey', (to) => to.createKey(key)),
    keyState: (account, key) => command('keyState', (to) => to.keyState(account, key)),
    endUserState: (account, endUser, key) =>
      command('endUserState', (to) => to.endUserState(account, endUser, key)),
    updateKey: (update) => command('updateKey', (to) => to.updateKey(update)),
    rotateKey: (rotation) => command('rotateKey', (to) => to.rotateKey(rotation)),
    findKey: (hash) => command('findKey', (to) => to.findKey(hash)),
    keys: (account) => command('keys', (to) => to.keys(account)),
    revokeKey: (account, key) => command('revokeKey', (to) => to.revokeKey(account, key)),
    close: async () => {},
  };
  return store;
}
