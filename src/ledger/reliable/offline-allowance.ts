import type { Admit } from '../ledger.ts';
import type { NanoDollars } from '../money.ts';

export interface OfflineAllowanceLimits {
  readonly perKey: NanoDollars;
  readonly perProcess: NanoDollars;
  /** How long the store may be away, in ms. */
  readonly forMs: number;
}

/** Keys whose last answer is remembered. */
const MOST_KEYS = 50_000;

/**
 * Money that this process may admit on its own while the store is away.
 *
 * A key gets of it only if the store admitted its last request that it answered. What
 * a request took comes back once the store has acknowledged its settlement, so that all
 * processes together overspend by `perProcess` each at most.
 */
export class OfflineAllowance {
  readonly #limits: OfflineAllowanceLimits;
  /** Keys that the store admitted last time, the latest at the end. */
  readonly #admitted = new Set<string>();
  /** By request id. */
  readonly #taken = new Map<string, { readonly key: string; readonly amount: NanoDollars }>();
  /** By key: what its requests have taken. */
  readonly #takenByKey = new Map<string, NanoDollars>();
  #takenByAll = 0n;

  constructor(limits: OfflineAllowanceLimits) {
    this.#limits = limits;
  }

  /** The store answered an admit: whether it admitted. */
  answered({ account, key }: Admit, admitted: boolean): void {
    const id = `${account} ${key}`;
    this.#admitted.delete(id);
    if (!admitted) return;
    this.#admitted.add(id);
    for (const oldest of this.#admitted) {
      if (this.#admitted.size <= MOST_KEYS) return;
      this.#admitted.delete(oldest);
    }
  }

  /** The operator said that this key, or this account, shall not spend. */
  forbid(account: string, key?: string): void {
    for (const id of this.#admitted) {
      if (key === undefined ? id.startsWith(`${account} `) : id === `${account} ${key}`)
        this.#admitted.delete(id);
    }
  }

  /** Takes what an admit wants, or less; undefined where not even its minimum is left. */
  take({ account, key, requestId, want, min }: Admit, awayMs: number): Taken | undefined {
    const { perKey, perProcess, forMs } = this.#limits;
    const id = `${account} ${key}`;
    if (awayMs > forMs || !this.#admitted.has(id) || this.#taken.has(requestId)) return undefined;
    const takenByKey = this.#takenByKey.get(id) ?? 0n;
    const left = least(perKey - takenByKey, perProcess - this.#takenByAll);
    const hold = least(want, left);
    if (hold < min || (hold === 0n && want > 0n)) return undefined;
    this.#taken.set(requestId, { key: id, amount: hold });
    this.#takenByKey.set(id, takenByKey + hold);
    this.#takenByAll += hold;
    return { hold, available: left - hold };
  }

  /** What a request took; undefined where it took nothing of this. */
  taken(requestId: string): NanoDollars | undefined {
    return this.#taken.get(requestId)?.amount;
  }

  /** The store acknowledged what became of a request. */
  giveBack(requestId: string): void {
    const taken = this.#taken.get(requestId);
    if (!taken) return;
    this.#taken.delete(requestId);
    this.#takenByAll -= taken.amount;
    const left = (this.#takenByKey.get(taken.key) ?? 0n) - taken.amount;
    if (left === 0n) this.#takenByKey.delete(taken.key);
    else this.#takenByKey.set(taken.key, left);
  }
}

interface Taken {
  readonly hold: NanoDollars;
  /** What is left of the allowance, for this key. */
  readonly available: NanoDollars;
}

function least(a: NanoDollars, b: NanoDollars): NanoDollars {
  return a < b ? a : b;
}
