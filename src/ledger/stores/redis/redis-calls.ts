import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import { Wait, type Waits } from './waits.ts';

/** The calls of a connection: commands, and others to its servers. */
export class Calls {
  /** Why there is no connection: the cause of a call's timeout. */
  failure: unknown;
  #running = 0;
  #whenIdle: (() => void) | undefined;

  /** Makes a call that ends in time, and throws only StoreUnavailableError. */
  run<T>(waits: Waits, start: (call: Call<T>) => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#running += 1;
      start(new Call<T>(this, waits, resolve, reject));
    });
  }

  end(): void {
    this.#running -= 1;
    if (this.#running === 0) this.#whenIdle?.();
  }

  /** Resolves when none is running. */
  async idle(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve));
  }
}

/** Ends once, with the first of a reply, an error and its timeout. */
export class Call<T> extends Wait {
  /** It was sent, and may have been applied. */
  mayBeApplied = false;
  /** The latest refusal. */
  refusal: unknown;
  readonly #calls: Calls;
  readonly #waits: Waits;
  readonly #resolve: (reply: T) => void;
  readonly #reject: (error: StoreUnavailableError) => void;

  constructor(
    calls: Calls,
    waits: Waits,
    resolve: (reply: T) => void,
    reject: (error: StoreUnavailableError) => void,
  ) {
    super();
    this.#calls = calls;
    this.#waits = waits;
    this.#resolve = resolve;
    this.#reject = reject;
    waits.begin(this);
  }

  succeed(reply: T): void {
    if (this.#end()) this.#resolve(reply);
  }

  fail(error: unknown): void {
    if (!this.#end()) return;
    this.#reject(error instanceof StoreUnavailableError ? error : this.#unavailable({ cause: error }));
  }

  override onTimeout(): void {
    this.#calls.end();
    this.#reject(this.#unavailable(because(this.refusal ?? this.#calls.failure)));
  }

  #end(): boolean {
    if (this.isOver) return false;
    this.#waits.end(this);
    this.#calls.end();
    return true;
  }

  #unavailable(options: ErrorOptions | undefined): StoreUnavailableError {
    return new StoreUnavailableError(this.mayBeApplied ? 'unknown' : 'no', options);
  }
}

export function because(cause: unknown): ErrorOptions | undefined {
  return cause === undefined ? undefined : { cause };
}
