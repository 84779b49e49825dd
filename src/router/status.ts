import { fetchStoreTime } from '../ledger/contract/store-clock.ts';
import type { WaitingCharge } from '../ledger/reliability/retry-queue.ts';
import { asError } from '../platform/as-error.ts';
import type { RequestLogCounts } from '../request-log/request-log.ts';
import type { RouterServices } from './services.ts';
import { storeFault } from './store-fault.ts';

export type { WaitingCharge };

/** What operators see of a process: its store, what waits for it, and what it has logged. */
export interface RouterStatus {
  /** When the router was made. */
  readonly startedAt: Date;
  /** Requests that this process answers now. */
  readonly running: number;
  readonly store: StoreStatus;
  /** Charges that the store has not answered yet, including those in the outbox. */
  readonly waitingCharges: number;
  /** The oldest 100 of them. */
  readonly waiting: readonly WaitingCharge[];
  /** Undefined without the option `outboxDir`. */
  readonly outbox?: OutboxStatus;
  /** Of the log of requests, since the process started. */
  readonly requestLog: RequestLogCounts;
}

export interface StoreStatus {
  /** Its URL, without a password. */
  readonly name: string;
  readonly state: 'available' | 'unavailable';
  /** How long it took to answer, or to fail, in ms. */
  readonly answerMs: number;
  /** Why it is unavailable. */
  readonly error?: string;
}

export interface OutboxStatus {
  readonly folder: string;
  /** Why nothing can be written; undefined while it can. */
  readonly error?: string;
}

const MAX_WAITING = 100;

/** Asks the store for its time. Never rejects. */
export async function routerStatus(
  { store, storeName, settings, requestLog }: RouterServices,
  process: { readonly startedAt: Date; readonly running: number; readonly probeId: string },
): Promise<RouterStatus> {
  const { startedAt, running, probeId } = process;
  const askedAt = performance.now();
  const fault = await fetchStoreTime(store, probeId).then(
    () => undefined,
    (error: unknown) => asError(storeFault(error, storeName)),
  );
  const answerMs = Math.round((performance.now() - askedAt) * 10) / 10;
  const { outboxDir } = settings;
  const { outboxFailure } = store;
  return {
    startedAt,
    running,
    store: {
      name: storeName,
      state: fault ? 'unavailable' : 'available',
      answerMs,
      ...(fault && { error: fault.message }),
    },
    waitingCharges: store.waitingCharges,
    waiting: store.listWaiting(MAX_WAITING),
    ...(outboxDir !== undefined && {
      outbox: { folder: outboxDir, ...(outboxFailure && { error: outboxFailure.message }) },
    }),
    requestLog: requestLog.counts(),
  };
}
