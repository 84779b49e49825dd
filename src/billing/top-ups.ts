import { setTimeout } from 'node:timers/promises';

import { nextTurn } from '../async/slices.ts';
import { Timeout } from '../async/timeout.ts';
import { type LedgerStore, StoreUnavailableError } from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import { topUpClaim } from '../ledger/contract/reserved-ids.ts';
import type { Thresholds } from '../options/resolve-thresholds.ts';

export interface TopUpsOptions {
  readonly store: LedgerStore;
  readonly topUp: NonNullable<Thresholds['topUp']>;
  readonly onError: (error: Error) => void;
}

/** How soon this process asks again for an account that it could not top up. */
const PAUSE_MS = 1000;

/** Calls the host to top an account up: once at a time per account, over all processes that share the store. */
export class TopUps {
  readonly #options: TopUpsOptions;
  /** The accounts that this process asks for, or has just asked for. */
  readonly #asking = new Map<string, Promise<void>>();
  /** Of these, those that a charge has asked for since. */
  readonly #wanted = new Set<string>();
  readonly #closing = new AbortController();

  constructor(options: TopUpsOptions) {
    this.#options = options;
  }

  /** @param unspent - what the account has, or less */
  consider(account: string, unspent: NanoDollars): void {
    if (unspent > this.#options.topUp.below || this.#closing.signal.aborted) return;
    this.#wanted.add(account);
    if (!this.#asking.has(account)) this.#asking.set(account, this.#ask(account));
  }

  /** Resolves when the calls that are running, or about to run, have ended; no other begins. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#asking.values());
  }

  /** Asks for as long as charges want it, with pauses: an unavailable store, or a call that fails, is not asked by each. */
  async #ask(account: string): Promise<void> {
    const { signal } = this.#closing;
    await nextTurn();
    while (this.#wanted.delete(account)) {
      const isDone = await this.#topUp(account);
      if (!isDone) await setTimeout(PAUSE_MS, undefined, { ref: false, signal }).catch(() => {});
      if (signal.aborted) break;
    }
    this.#asking.delete(account);
  }

  /** Whether the account needs nothing now. */
  async #topUp(account: string): Promise<boolean> {
    const { store, topUp, onError } = this.#options;
    try {
      const beganAt = performance.now();
      const id = await this.#claim(account);
      if (id === undefined) return false;
      const needed = await this.#needed(account);
      if (needed !== undefined) {
        await withinClaim(topUp.run({ account, id, unspent: formatUsd(needed) }), topUp.retryMs);
        if ((await this.#needed(account)) !== undefined) return false;
      }
      // Later, another process may have the claim.
      if (performance.now() - beganAt < topUp.retryMs) await store.claim?.(topUpClaim(account), 0);
      return true;
    } catch (error) {
      const reason = error instanceof StoreUnavailableError ? 'the store is unavailable' : 'it failed';
      onError(new Error(`The top-up of account ${account} is repeated later: ${reason}`, { cause: error }));
      return false;
    }
  }

  /** The id of the top-up that this process may make now; undefined if another one has the claim. */
  async #claim(account: string): Promise<string | undefined> {
    const { store, topUp } = this.#options;
    const claim = topUpClaim(account);
    let since = await store.claim?.(claim, topUp.retryMs);
    if (since !== undefined && (await this.#isGranted(account, idOf(since)))) {
      // That one is over: its process died after the grant, or the grant was too small.
      await store.claim?.(claim, 0);
      since = await store.claim?.(claim, topUp.retryMs);
    }
    return since === undefined ? undefined : idOf(since);
  }

  async #isGranted(account: string, id: string): Promise<boolean> {
    const found = await this.#options.store.verify({ account, witnesses: [{ type: 'payment', id }] });
    return found.code === 'ok' && !found.missing;
  }

  /** What the account has, if that is too little; undefined for one that needs nothing, or is frozen. */
  async #needed(account: string): Promise<NanoDollars | undefined> {
    const balance = await this.#options.store.balance(account);
    if (!balance || balance.frozen) return undefined;
    const unspent = balance.available + balance.held;
    return unspent > this.#options.topUp.below ? undefined : unspent;
  }
}

/** Waits for a call for as long as its claim lasts: then another may begin, and one that hangs must not be waited for. */
async function withinClaim(call: unknown, ms: number): Promise<void> {
  const { promise: claimEnded, reject } = Promise.withResolvers<never>();
  const timeout = new Timeout(ms, () =>
    reject(new Error(`thresholds.topUp.run has not ended within ${ms} ms`)),
  );
  timeout.unref();
  try {
    await Promise.race([call, claimEnded]);
  } finally {
    timeout.clear();
  }
}

/** @param since - when it was claimed first, in ms */
function idOf(since: number): string {
  return `top-up-${since.toString(36)}`;
}
