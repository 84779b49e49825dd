import type { LedgerEvent } from '../contract/events.ts';
import type { StoreUnavailableError } from '../contract/ledger-store.ts';

export interface StoreHealthOptions {
  readonly now: () => number;
  readonly tell: (event: LedgerEvent) => void;
  /** Called at the first answer after a failure. */
  readonly onBack: () => void;
}

/** A store that fails repeatedly within this time is reported as unavailable. */
const STEADY_MS = 1000;

/** Whether the store answers; operators hear of the changes, however many commands see them. */
export class StoreHealth {
  readonly #options: StoreHealthOptions;
  #failing = false;
  #failedAt = 0;
  /** When the store was reported as unavailable; undefined while it is available. */
  #awaySince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: StoreHealthOptions) {
    this.#options = options;
  }

  /** The last command got no answer. */
  get failing(): boolean {
    return this.#failing;
  }

  failed(error: StoreUnavailableError): void {
    const { now, tell } = this.#options;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#failedAt = now();
    this.#failing = true;
    if (this.#awaySince !== undefined) return;
    this.#awaySince = this.#failedAt;
    const { cause, message } = error;
    tell({ type: 'store_unavailable', message: cause instanceof Error ? cause.message : message });
  }

  answered(): void {
    if (this.#awaySince === undefined) return;
    if (this.#failing) {
      this.#failing = false;
      this.#options.onBack();
    }
    this.#timer ??= setTimeout(() => this.#steady(), STEADY_MS).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #steady(): void {
    this.#timer = undefined;
    if (this.#awaySince === undefined) return;
    const awayMs = Math.max(0, this.#failedAt - this.#awaySince);
    this.#awaySince = undefined;
    this.#options.tell({ type: 'store_recovered', awayMs });
  }
}
