import { shardOf, SHARDS } from './redis-keys.ts';
import { claimDue } from './lua/claim-due.ts';
import type { ScriptRunner } from './script-runner.ts';

/**
 * An index of accounts by when something in them is due, so that a sweep needn't
 * visit all: sorted sets in Redis, written at most once a minute per account.
 *
 * Entries are only hints: the sweep's slow round over all accounts covers those
 * that are lost, by a failover or a crash.
 */
export class DueAccounts {
  readonly #runner: ScriptRunner;
  /** Accounts that this process has indexed in this minute of the store's clock. */
  readonly #hinted = new Set<string>();
  #minute = 0;

  constructor(runner: ScriptRunner) {
    this.#runner = runner;
  }

  /** Indexes an account, at most once a minute, in the background. */
  hint(account: string, now: number, due: number): void {
    const minute = Math.floor(now / MINUTE_MS);
    if (minute !== this.#minute) this.#hinted.clear();
    this.#minute = minute;
    if (this.#hinted.has(account)) return;
    this.#hinted.add(account);
    this.put(account, due).catch(() => this.#hinted.delete(account));
  }

  /** Indexes an account at `due`, in ms; an earlier entry stays. */
  async put(account: string, due: number): Promise<void> {
    await this.#runner.send('zadd', [this.#runner.keys.due(shardOf(account)), 'LT', String(due), account]);
  }

  /** Claims due accounts, a few at a time. If the consumer stops or throws, the unprocessed ones are put back. */
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
