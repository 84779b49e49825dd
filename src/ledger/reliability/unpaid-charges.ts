import type { LedgerEvent } from '../contract/events.ts';
import type { Settle } from '../contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../contract/money.ts';
import type { Debit, RedoLog, Unpaid, WatchedAccount } from './redo-log.ts';
import type { Replay, Replayer } from './replayer.ts';

/** How long the rest of a charge waits, while the store answers, for credits that other gateways may apply again. */
export const UNPAID_MS = 30_000;

export interface UnpaidChargesOptions {
  readonly window: RedoLog;
  readonly repetitions: Replayer;
  readonly tell: (event: LedgerEvent) => void;
  readonly now: () => number;
  /** Called with a charge that waits, and once it is posted whole or given up. */
  readonly onWaiting: (command: Settle) => void;
  readonly onDone: (requestId: string) => void;
  /** Called where a part that was posted is not there any more. */
  readonly onLost: (account: WatchedAccount) => void;
}

/**
 * Charges that were posted as far as the balance goes, because a rollback may have taken what covers the rest; and
 * adjustments that it doesn't cover, which have no parts.
 *
 * The rest is posted when there is something, before anything is admitted; after half a minute it is given up.
 */
export class UnpaidCharges {
  readonly #options: UnpaidChargesOptions;

  constructor(options: UnpaidChargesOptions) {
    this.#options = options;
  }

  /** @param charged - what was posted of it */
  add(account: WatchedAccount, change: Debit, charged: NanoDollars): void {
    if (!account.changes.has(change)) return;
    const { now, onWaiting } = this.#options;
    account.unpaid ??= { since: now(), reapplied: undefined, charges: new Map(), collecting: undefined };
    if (change.type === 'settle' && !account.unpaid.charges.has(change)) onWaiting(change.command);
    if (change.type === 'adjust') account.tips.delete(change);
    account.unpaid.charges.set(change, charged);
  }

  /** A repair has ended: it is reported once nothing is unpaid. */
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

  /** @param isKept - charges that wait are posted by the next process */
  close(accounts: Iterable<WatchedAccount>, isKept: boolean): void {
    for (const account of accounts) {
      if (account.unpaid) this.#giveUp(account, account.unpaid, ({ type }) => !isKept || type === 'adjust');
    }
  }

  async #collect(account: WatchedAccount, unpaid: Unpaid): Promise<void> {
    const { now, tell, onDone, onLost } = this.#options;
    const { charges } = unpaid;
    for (const [change, before] of charges) {
      const { charged, refused, reapplied } = await this.#repeat(account, change, unpaid);
      // The account was lost meanwhile.
      if (account.unpaid !== unpaid) return;
      // It has no parts: what is left may cover another.
      if (change.type === 'adjust' && refused === 'below_floor') continue;
      if (change.type === 'settle' && charged !== undefined && charged < change.command.amount) {
        charges.set(change, charged);
        if (reapplied && charged <= before) onLost(account);
        break;
      }
      charges.delete(change);
      if (change.type === 'settle') onDone(change.command.requestId);
    }
    if (now() - Math.max(unpaid.since, account.rolledBackAt) >= UNPAID_MS) this.#giveUp(account, unpaid);
    if (charges.size > 0) return;
    account.unpaid = undefined;
    if (unpaid.reapplied === undefined) return;
    tell({ type: 'rollback_repaired', account: account.id, reapplied: unpaid.reapplied });
  }

  /** Other gateways may find it away, too: they have applied nothing meanwhile. */
  async #repeat(account: WatchedAccount, change: Debit, unpaid: Unpaid): Promise<Replay> {
    const { repetitions, now } = this.#options;
    try {
      return await repetitions.repeat(account, change);
    } catch (error) {
      unpaid.since = now();
      throw error;
    }
  }

  /** The balance was spent again: the rest is written off. */
  #giveUp(
    account: WatchedAccount,
    { charges, reapplied }: Unpaid,
    isGivenUp: (change: Debit) => boolean = () => true,
  ): void {
    const { tell, window, onDone } = this.#options;
    for (const [change, charged] of charges) {
      if (!isGivenUp(change)) continue;
      window.giveUp(account, change);
      if (change.type === 'adjust') {
        const { id, delta } = change.command;
        tell({
          type: 'repair_refused',
          account: account.id,
          id,
          amount: formatUsd(delta),
          code: 'below_floor',
        });
        continue;
      }
      const { command } = change;
      const { requestId: id } = command;
      const rest = command.amount - charged;
      window.record(account, { ...change, command: { ...command, amount: charged } });
      onDone(id);
      tell({ type: 'write_off', account: account.id, requestId: id, amount: formatUsd(rest) });
      if (reapplied === undefined) continue;
      tell({ type: 'repair_refused', account: account.id, id, amount: formatUsd(-rest), code: 'no_funds' });
    }
    charges.clear();
  }
}
