import { writeSync } from 'node:fs';
import { once } from 'node:events';
import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import {
  type Settle,
  type SettledUsage,
  type SettleResult,
  StoreUnavailableError,
} from '../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../src/ledger/stores/memory/memory-store.ts';
import { OutboxFolder } from '../../src/ledger/reliability/outbox-files.ts';
import { ReliableStore } from '../../src/ledger/reliability/reliable-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { SqliteStore } from '../../src/ledger/stores/sqlite/sqlite-store.ts';

/**
 * A process of its own with an outbox: `node outbox-writer.ts TASK LEDGER OUTBOX`.
 *
 * What it writes to stdout was true before it went on.
 */
const [task = '', file = '', folder = ''] = process.argv.slice(2);
const say = (...words: readonly (string | number | bigint)[]): void =>
  void writeSync(1, `${words.join(' ')}\n`);

/** In memory, and takes no settlements while it is away. */
class AwayStore extends MemoryStore {
  isAway = false;

  override async settle(command: Settle): Promise<SettleResult> {
    if (this.isAway) throw new StoreUnavailableError('no');
    return super.settle(command);
  }
}

const ledger = new AwayStore();
const told: string[] = [];
const store = new ReliableStore({
  store: task === 'wait' ? new SqliteStore(file) : ledger,
  tell: ({ type }: LedgerEvent) => {
    told.push(type);
    say('event', type);
  },
  outbox: new OutboxFolder(folder),
});
const ids = new RequestIds();

const USAGE: SettledUsage = {
  promptTokens: 9,
  cachedTokens: 2,
  completionTokens: 12,
  reasoningTokens: 3,
  source: 'upstream',
  price: 'v1',
  ending: 'finished',
};

async function admit(): Promise<string> {
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
  if (code !== 'ok') throw new Error(`An admit was answered ${code}`);
  return requestId;
}

async function settle(requestId: string, amount: bigint, price = 'v1'): Promise<unknown> {
  return store.settle({
    account: 'acme',
    requestId,
    amount,
    key: 'k1',
    model: 'some/model',
    usage: { ...USAGE, price },
    force: true,
  });
}

/** Takes holds; told to go on, ends 1,000 requests and waits for a ledger that someone else keeps busy. */
async function wait(): Promise<void> {
  const held = [await admit(), await admit(), await admit()];
  say('admitted');
  await once(process.stdin, 'data');
  for (const [n, requestId] of held.entries()) {
    settle(requestId, BigInt(n + 1)).catch(() => {});
    say('ended', requestId, n + 1);
  }
  for (let n = 0; n < 997; n++) {
    const requestId = ids.next();
    settle(requestId, 1n).catch(() => {});
    say('ended', requestId, 1);
  }
  say('waiting');
  await new Promise(() => setInterval(() => {}, 1000));
}

/** Ends requests, which its ledger does not take, until its disk is full; then the ledger does. */
async function fill(): Promise<void> {
  await store.grant({ account: 'acme', id: 'g1', amount: 100_000n });
  ledger.isAway = true;
  const settling: Promise<unknown>[] = [];
  for (let refused = 0; settling.length < 300 && refused < 3;) {
    try {
      settling.push(settle(await admit(), 1n, 'x'.repeat(10_000)));
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      say('refused', error.applied);
      refused += 1;
    }
  }
  say('ended', settling.length);
  ledger.isAway = false;
  await Promise.all(settling);
  while (!told.includes('outbox_recovered')) await new Promise((resolve) => setTimeout(resolve, 50));
  await admit();
  const { spent = 0n, held = 0n } = (await store.balance('acme')) ?? {};
  say('balance', spent, held);
  await store.close();
}

await (task === 'wait' ? wait() : fill());
