import type { LedgerEvent } from '../events.ts';
import type { Settle } from '../ledger.ts';
import { formatUsd, type NanoDollars } from '../money.ts';
import type { Change, RedoWindow, Unpaid, WatchedAccount } from './redo-window.ts';
import type { Repetitions } from './repetitions.ts';

/** How long the rest of a charge waits for credits that other gateways may apply again. */
export const UNPAID_MS = 30_000;

export interface UnpaidChargesOptions {
  readonly window: RedoWindow;
  readonly repetitions: Repetitions;
  readonly tell: (event: LedgerEvent) => void;
  readonly now: () => number;
  /** Called with a charge that waits, and once it is posted whole or given up. */
  readonly onWaiting: (command: Settle) => void;
  readonly onDone: (requestId: string) => void;
}

/**
 * Charges that were posted as far as the balance goes, because a rollback may have taken what covers the rest.
 *
 * The rest is posted when there is something, before anything is admitted; after half a minute it is given up.
 */
export class UnpaidCharges {
  readonly #options: UnpaidChargesOptions;

  constructor(options: UnpaidChargesOptions) {
    this.#options = options;
  }

  /** @param charged - what was posted of it */
  add(account: WatchedAccount, change: Extract<Change, { type: 'settle' }>, charged: NanoDollars): void {
    if (!account.changes.has(change)) return;
    const { now, onWaiting } = this.#options;
    account.unpaid ??= { since: now(), reapplied: undefined, charges: new Map(), collecting: undefined };
    if (!account.unpaid.charges.has(change)) onWaiting(change.command);
    account.unpaid.charges.set(change, charged);
  }

  /** A repair has ended: it is told once nothing is unpaid. */
  repaired(account: WatchedAccount, reapplied: number): void {
    if (account.unpaid) account.unpaid.reapplied = (account.unpaid.reapplied ?? 0) + reapplied;
    else this.#options.tell({ type: 'rollback_repaired', account: account.id, reapplied });
  }

  /** Posts what has become covered; gives up what wasn't for too long. */
  collect(account: WatchedAccount): Promise<void> {
    const { unpaid } = account;
    if (!unpaid) return Promise.resolve();
    unpaid.collecting ??= this.#collect(account, unpaid).finally(() => (unpaid.collecting = undefined));
    return unpaid.collecting;
  }

  /** @param isKept - what waits is posted by the next process */
  close(accounts: Iterable<WatchedAccount>, isKept: boolean): void {
    if (isKept) return;
    for (const account of accounts) if (account.unpaid) this.#giveUp(account, account.unpaid);
  }

  async #collect(account: WatchedAccount, unpaid: Unpaid): Promise<void> {
    const { repetitions, now, tell, onDone } = this.#options;
    const { charges } = unpaid;
    for (const change of charges.keys()) {
      const { charged } = await repetitions.repeat(account, change);
      // The account was lost meanwhile.
      if (account.unpaid !== unpaid) return;
      if (charged !== undefined && charged < change.command.amount) {
        charges.set(change, charged);
        break;
      }
      charges.delete(change);
      onDone(change.command.requestId);
    }
    if (now() - unpaid.since >= UNPAID_MS) this.#giveUp(account, unpaid);
    if (charges.size > 0) return;
    account.unpaid = undefined;
    const { reapplied } = unpaid;
    if (reapplied !== undefined) tell({ type: 'rollback_repaired', account: account.id, reapplied });
  }

  /** The balance was spent again: the rest is charged to nobody. */
  #giveUp(account: WatchedAccount, { charges, reapplied }: Unpaid): void {
    const { tell, window, onDone } = this.#options;
    for (const [change, charged] of charges) {
      const { command } = change;
      const { requestId: id } = command;
      const rest = command.amount - charged;
      window.giveUp(account, change);
      window.record(account, { ...change, command: { ...command, amount: charged } });
      onDone(id);
      tell({ type: 'write_off', account: account.id, requestId: id, amount: formatUsd(rest) });
      if (reapplied === undefined) continue;
      tell({ type: 'repair_refused', account: account.id, id, amount: formatUsd(-rest), code: 'no_funds' });
    }
    charges.clear();
  }
}
