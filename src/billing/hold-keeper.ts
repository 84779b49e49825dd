import { type Answer, isLater, rejection } from '../async/answer.ts';
import { SlotList } from '../async/slot-list.ts';
import { TimerWheel } from '../async/timer-wheel.ts';
import {
  type Admit,
  type AdmitResult,
  type LedgerStore,
  type SettleResult,
  StoreUnavailableError,
} from '../ledger/contract/ledger-store.ts';
import type { LedgerEvent } from '../ledger/contract/events.ts';
import type { CreateKey } from '../ledger/contract/key-records.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import { clockOf, type StoreClock } from '../ledger/contract/store-clock.ts';
import { fromStore } from '../keys/from-store.ts';
import { asError } from '../platform/as-error.ts';
import { LeaseRenewal } from './lease-renewal.ts';
import type { ThresholdWatch } from './threshold-watch.ts';

/** How long an admit may take before the client gets a retryable error. */
const ADMIT_DEADLINE_MS = 5_000;
const MAX_DIMENSIONS_REPORTED = 10_000;

export interface HoldKeeperOptions {
  /** Repeats a settle or void until it is answered, and voids what an admit without an answer may have held: a ReliableStore. */
  readonly store: LedgerStore;
  /** Learns from every admit. @default clockOf(store) */
  readonly clock?: StoreClock;
  /** How long a hold lives without a renewal of its lease. @default 120000 */
  readonly leaseMs?: number;
  /** How often a lease is renewed. @default 30000 */
  readonly renewMs?: number;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly tell: (event: LedgerEvent) => void;
  /** @default none */
  readonly thresholds?: ThresholdWatch | undefined;
  /** Has the times at which leases are renewed. @default one of its own */
  readonly wheel?: TimerWheel;
}

interface Posting {
  readonly requestId: string;
  readonly done: Promise<void>;
}

/** What all kinds of holds share: they are admitted in time, their leases are renewed, and what is posted is awaited. */
export class HoldKeeper {
  readonly store: LedgerStore;
  readonly leaseMs: number;
  readonly renewal: LeaseRenewal;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly tell: (event: LedgerEvent) => void;
  readonly #clock: StoreClock;
  readonly #thresholds: ThresholdWatch | undefined;
  readonly #posting = new SlotList<Posting>();
  /** Accounts and dimensions that had more values on a day than usage has rows for. */
  readonly #toldDimensions = new Set<string>();

  constructor({
    store,
    clock,
    leaseMs = 120_000,
    renewMs = 30_000,
    onError,
    tell,
    thresholds,
    wheel = new TimerWheel(),
  }: HoldKeeperOptions) {
    this.store = store;
    this.leaseMs = leaseMs;
    this.onError = onError;
    this.tell = tell;
    this.#clock = clock ?? clockOf(store);
    this.#thresholds = thresholds;
    this.renewal = new LeaseRenewal(renewMs, wheel);
  }

  /**
   * Asks for a hold, in one round trip.
   *
   * @param unrecordedKey - the key to record if there is none: a session's
   * @throws {CreditStoreUnavailableError} if the store did not answer; the store voids what it may have held
   */
  admit(command: Admit, unrecordedKey?: CreateKey): Answer<AdmitResult> {
    const result = this.#ask(command);
    const isFinal = !isLater(result) && result.code !== 'stale' && result.code !== 'no_key';
    if (!isFinal) return this.#admitLater(command, result, unrecordedKey);
    return this.#answered(command, result, unrecordedKey);
  }

  #ask(command: Admit): Answer<AdmitResult> {
    try {
      return this.store.admit(command);
    } catch (error) {
      return rejection(error);
    }
  }

  /** By when a hold that is asked for now must be admitted, in the store's time. */
  get admitBy(): number {
    return this.#clock.now() + ADMIT_DEADLINE_MS;
  }

  async #admitLater(
    command: Admit,
    first: Answer<AdmitResult>,
    unrecordedKey: CreateKey | undefined,
  ): Promise<AdmitResult> {
    return fromStore(async () => {
      const result = this.#answered(command, await first, unrecordedKey);
      if (result.code === 'no_key' && unrecordedKey) await this.store.createKey(unrecordedKey);
      // The clock here or there was set: its client still waits.
      else if (result.code !== 'stale') return result;
      const again = await this.store.admit({ ...command, notAfter: this.admitBy });
      return this.#answered(command, again, unrecordedKey);
    });
  }

  #answered(
    { account, externalKey }: Admit,
    result: AdmitResult,
    unrecordedKey: CreateKey | undefined,
  ): AdmitResult {
    this.#clock.sync(result.now);
    if (result.code === 'no_funds') this.#thresholds?.refused(account);
    // A recorded key is gone with its account.
    const isRecorded = !externalKey && !unrecordedKey;
    return result.code === 'no_account' && isRecorded ? { ...result, code: 'no_key' } : result;
  }

  /** Waits, with `posted` and `drain`, for what is posted of a request that has ended, and reports why it failed. */
  track(requestId: string, posted: Promise<unknown>): void {
    const done = posted.then(
      () => {},
      (error: unknown) => {
        // A store gives up only what waits when it is closed; who closes it tells how much that is.
        if (!(error instanceof StoreUnavailableError)) this.onError(asError(error), requestId);
      },
    );
    const place = this.#posting.add({ requestId, done });
    void done.then(() => {
      this.#posting.delete(place);
    });
  }

  /** Resolves when nothing is left to be posted of a request that has ended. */
  async posted(requestId: string): Promise<void> {
    const posting = this.#posting.values().find((one) => one.requestId === requestId);
    await posting?.done;
  }

  /** A charge was posted: reports what it exceeded of its hold and of the balance, and the thresholds that it crossed. */
  charged(account: string, requestId: string, held: NanoDollars, result: SettleResult): void {
    const isTold = result.code === 'ok' || (result.code === 'duplicate' && result.writtenOff !== undefined);
    // Nothing was charged, or another process has told.
    if (!isTold) return;
    const { charged, writtenOff = 0n } = result;
    const shared = result.code === 'ok' ? result.sharedDimensions : undefined;
    for (const dimension of shared ?? []) this.#tellOfDimension(account, dimension);
    if (charged > held) {
      const amounts = { held: formatUsd(held), charged: formatUsd(charged) };
      this.tell({ type: 'overrun', account, requestId, ...amounts });
    }
    if (writtenOff > 0n) {
      this.tell({ type: 'write_off', account, requestId, amount: formatUsd(writtenOff) });
    }
    if (result.code === 'ok') this.#thresholds?.charged(account, requestId, result);
    else this.#thresholds?.chargedUnseen(account);
  }

  /** A settle has to ask for the budgets that `charged` reports. */
  get watchesBudgets(): boolean {
    return this.#thresholds?.watchesBudgets === true;
  }

  /** Once of each account: some values of a dimension share a row of usage. */
  #tellOfDimension(account: string, dimension: string): void {
    const told = `${account} ${dimension}`;
    if (this.#toldDimensions.has(told) || this.#toldDimensions.size === MAX_DIMENSIONS_REPORTED) return;
    this.#toldDimensions.add(told);
    this.tell({ type: 'dimension_full', account, dimension });
  }

  /** Charges that the store has not answered. */
  get waiting(): number {
    return this.#posting.size;
  }

  /** Resolves when everything that was to be posted is posted. No lease is renewed any more. */
  async drain(): Promise<void> {
    this.renewal.stop();
    while (this.#posting.size > 0) await Promise.all(this.#posting.values().map(({ done }) => done));
  }
}
