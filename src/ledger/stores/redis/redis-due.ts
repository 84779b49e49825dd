import { shardOf, SHARDS } from './redis-keys.ts';
import { claimDue } from './lua/claim-due.ts';
import type { ScriptRunner } from './script-runner.ts';

/**
 * Which accounts have something that comes due, so that a sweep needn't visit
 * all: sorted sets in Redis, written at most once a minute for an account.
 *
 * Only a hint: one that is lost, by a failover or with its process, is found
 * by the sweep's slow round over all accounts.
 */
export class DueAccounts {
  readonly #runner: ScriptRunner;
  /** Accounts that this process has hinted at in this minute of the store's clock. */
  readonly #hinted = new Set<string>();
  #minute = 0;

  constructor(runner: ScriptRunner) {
    this.#runner = runner;
  }

  /** Hints at an account unless it was done this minute; nobody waits for it. */
  hint(account: string, now: number, due: number): void {
    const minute = Math.floor(now / MINUTE_MS);
    if (minute !== this.#minute) this.#hinted.clear();
    this.#minute = minute;
    if (this.#hinted.has(account)) return;
    this.#hinted.add(account);
    this.put(account, due).catch(() => this.#hinted.delete(account));
  }

  /** Puts an account where it is found at that time, or earlier if it is there already. */
  async put(account: string, due: number): Promise<void> {
    await this.#runner.send('zadd', this.#runner.keys.due(shardOf(account)), 'LT', String(due), account);
  }

  /** Takes accounts that are due, a few at a time; whoever stops, or throws, leaves the rest where they were. */
  async *claim(): AsyncGenerator<string> {
    for (let shard = 0; shard < SHARDS; shard++) {
      const keys = [this.#runner.keys.due(shard)];
      let claimed: readonly string[];
      do {
        claimed = await this.#runner.run(claimDue, keys, [this.#runner.clock(), String(CLAIMED_AT_ONCE)]);
        let done = 0;
        try {
          for (const account of claimed) {
            this.#hinted.delete(account);
            yield account;
            done += 1;
          }
        } finally {
          for (const account of claimed.slice(done)) this.put(account, 0).catch(() => {});
        }
      } while (claimed.length === CLAIMED_AT_ONCE);
    }
  }
}

const MINUTE_MS = 60_000;
const CLAIMED_AT_ONCE = 10;
