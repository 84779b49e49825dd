import { writeSync } from 'node:fs';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setImmediate } from 'node:timers/promises';
import type { SettledUsage } from '../../src/ledger/contract/ledger-store.ts';
import { StoreUnavailableError } from '../../src/ledger/contract/ledger-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { SqliteStore } from '../../src/ledger/stores/sqlite/sqlite-store.ts';

/**
 * A process of its own that uses a ledger file: `node sqlite-writer.ts TASK FILE`.
 *
 * What it writes to stdout has been acknowledged, and is out before it goes on.
 */
const [task = '', file = ''] = process.argv.slice(2);
const store = new SqliteStore(file);
const ids = new RequestIds();
const say = (...words: readonly (string | bigint)[]): void => void writeSync(1, `${words.join(' ')}\n`);

const USAGE: SettledUsage = {
  promptTokens: 9,
  cachedTokens: 2,
  completionTokens: 12,
  reasoningTokens: 3,
  source: 'upstream',
  price: 'v1',
  ending: 'finished',
};

/** Takes a hold of 10 from account `acme`. */
async function admit(): Promise<{ requestId: string; code: string }> {
  const requestId = ids.next();
  const { code } = await store.admit({
    account: 'acme',
    key: 'k1',
    externalKey: true,
    requestId,
    want: 10n,
    min: 10n,
    leaseMs: 120_000,
    tokens: 0,
    notAfter: Infinity,
  });
  return { requestId, code };
}

async function settle(requestId: string, amount: bigint): Promise<void> {
  await post(requestId, amount);
  say('settle', requestId, amount);
}

async function post(requestId: string, amount: bigint): Promise<void> {
  const { code } = await store.settle({
    account: 'acme',
    requestId,
    amount,
    key: 'k1',
    model: 'some/model',
    usage: USAGE,
    force: true,
  });
  if (code !== 'ok') throw new Error(`A settle was answered ${code}`);
}

/** Settles as many requests at a time, until three of them have failed. */
async function fill(together: number): Promise<void> {
  const one = async (): Promise<number> => {
    const requestId = ids.next();
    try {
      await settle(requestId, 1n);
      return 0;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      say(error.applied === 'no' ? 'refused' : 'unsure', requestId);
      return 1;
    }
  };
  for (let failures = 0; failures < 3;) {
    const counts = await Promise.all(Array.from({ length: together }, one));
    failures += counts.reduce((total, count) => total + count, 0);
  }
}

async function grant(n: number): Promise<void> {
  const id = `${process.pid}-${n}`;
  const { code } = await store.grant({ account: 'acme', id, amount: 20n });
  if (code === 'ok') say('grant', id);
}

const TASKS: Readonly<Record<string, () => Promise<void>>> = {
  /** Holds 32 times at once, when stdin says so, and says how often it was admitted. */
  async admit() {
    await store.balance('acme');
    say('ready');
    await once(process.stdin, 'data');
    const results = await Promise.all(Array.from({ length: 32 }, admit));
    say('admitted', String(results.filter(({ code }) => code === 'ok').length));
  },

  /** Grants, holds and settles until it is killed. */
  async write() {
    for (let n = 0; ; n++) {
      if (n % 4 === 0) await grant(n);
      const { requestId } = await admit();
      // Some stay held, some are charged more than they hold.
      if (n % 5 !== 0) await settle(requestId, BigInt(n % 13));
    }
  },

  /** Admits and settles 2,000 requests, 50 at a time, when stdin says so. */
  async hammer() {
    await store.balance('acme');
    say('ready');
    await once(process.stdin, 'data');
    const counts = { settled: 0, refused: 0 };
    const one = async (): Promise<void> => {
      for (let n = 0; n < 40; n++) {
        try {
          const { requestId } = await admit();
          await post(requestId, 1n);
          counts.settled += 1;
        } catch (error) {
          if (!(error instanceof StoreUnavailableError)) throw error;
          counts.refused += 1;
        }
        // As by requests, which come with turns of the event loop.
        await setImmediate();
      }
    };
    await Promise.all(Array.from({ length: 50 }, one));
    for (const [what, count] of Object.entries(counts)) say(what, String(count));
  },

  /** Settles 40,000 requests at once. */
  async burst() {
    const settling = Array.from({ length: 40_000 }, () => post(ids.next(), 1n));
    await settling[0];
    say('began');
    await Promise.all(settling);
    say('settled');
  },

  /** Grants under each id that stdin has a line with, all at once. */
  async grant() {
    await store.balance('acme');
    say('ready');
    for await (const id of createInterface(process.stdin)) {
      void store.grant({ account: 'acme', id, amount: 1n }).then(() => say('granted', id));
    }
  },

  /** Settles until the disk is full, and says of what failed whether that is certain. */
  fill: () => fill(1),

  /** The same, of requests that are committed together. */
  'fill-together': () => fill(200),
};

await TASKS[task]?.();
await store.close();
process.stdin.destroy();
