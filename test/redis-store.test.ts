import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import type { Admit, LedgerStore, Settle } from '../src/ledger/ledger.ts';
import { MemoryStore } from '../src/ledger/memory-store.ts';
import { type RedisClient, RedisStore, type RedisStoreOptions } from '../src/ledger/redis-store.ts';
import { DAY, hashOf, HOUR, MAX, MINUTE, NOON, requestId, USAGE } from './contracts/ledger-fixture.ts';
import { describeLedgerStore } from './contracts/ledger-store.ts';
import { type RedisServer, startRedis } from './helpers/redis-server.ts';

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});

afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

describeLedgerStore(
  'RedisStore',
  async (clock) => new RedisStore({ client: redis, keyPrefix: namespace(), now: () => clock.now }),
  { sequences: 300 },
);

describe('RedisStore', () => {
  it("reads Redis's clock unless it is given another", async () => {
    const [seconds] = await redis.time();
    const { now } = await openStore().grant({ account: 'acme', id: 'g1', amount: 1n });
    expect(now).toBeGreaterThanOrEqual(Number(seconds) * 1000);
    expect(now).toBeLessThanOrEqual(Number(seconds) * 1000 + 10_000);
  });

  it('shares its accounts with others of the same prefix', async () => {
    const keyPrefix = namespace();
    const [one, other] = [openStore({ keyPrefix }), openStore({ keyPrefix })];
    await one.grant({ account: 'acme', id: 'g1', amount: 100n });
    await one.admit(admission(1, 30n));
    expect(await other.admit(admission(1, 30n))).toMatchObject({ code: 'exists', available: 70n });
  });

  it('works when the server forgets its scripts between any two calls', async () => {
    const forgetful = clientThat(async (command) => {
      if (command === 'evalsha') await redis.script('FLUSH');
    });
    const store = openStore({ client: forgetful, now: () => NOON });
    expect(await story(store)).toEqual(await story(new MemoryStore({ now: () => NOON })));
  });

  it.each<[string, (port: number) => RedisClient & { disconnect(): void }]>([
    ['a key prefix', (port) => new Redis({ port, keyPrefix: 'app:' })],
    ['automatic pipelining', (port) => new Redis({ port, enableAutoPipelining: true })],
    ['no offline queue', (port) => new Redis({ port, enableOfflineQueue: false })],
    ['RESP 2', (port) => new Redis({ port, protocol: 2 })],
    ['replies as RESP 3 has them', (port) => new Redis({ port, replyMapping: 'resp3' })],
    ['numbers as strings', (port) => new Redis({ port, stringNumbers: true })],
    ['friendly error stacks', (port) => new Redis({ port, showFriendlyErrorStack: true })],
  ])('works with a client that has %s', async (_, makeClient) => {
    const client = makeClient(server.port);
    const store = openStore({ client, now: () => NOON });
    expect(await story(store)).toEqual(await story(new MemoryStore({ now: () => NOON })));
    client.disconnect();
  });

  it('is exact beyond 2^53', async () => {
    const clock = { now: NOON };
    const now = (): number => clock.now;
    const stores = [openStore({ now }), new MemoryStore({ now })];
    for (const store of stores) {
      clock.now = NOON;
      const account = 'acme';
      for (let n = 1; n <= 3; n++) {
        await store.grant({ account, id: `g${n}`, amount: MAX });
        await store.admit(admission(n, MAX));
        await store.extend({ account, requestId: requestId(n), hold: 0n, leaseMs: 1, checkpoint: MAX });
        clock.now += 2 * MINUTE;
        await store.sweep(10);
      }
      await store.grant({ account, id: 'g4', amount: MAX, expiresAt: NOON + HOUR });
      await store.admit(admission(4, MAX));
      for (let n = 1; n <= 3; n++) await store.void({ account, requestId: requestId(n) });
      await store.admit(admission(5, MAX));
      await store.admit(admission(6, 7n));
      await store.settle(settlement(4, MAX));
      await store.settle(settlement(5, MAX - 1n));
      await store.settle(settlement(7, 600_000_000n));
      clock.now += HOUR;
      await store.adjust({ account, id: 'a1', delta: -5n, reason: '' });
      await store.trim(account, 8n);
    }
    const [ours, theirs] = await Promise.all(stores.map(everything));
    expect(ours).toEqual(theirs);
    expect(ours?.state).toMatchObject({
      frozen: false,
      granted: 4n * MAX - 5n,
      available: 2n * MAX - 600_000_011n,
    });
  });

  it('counts no lot that expires when the hundred-and-first is granted', async () => {
    const clock = { now: NOON };
    const store = openStore({ now: () => clock.now });
    const grant = (n: number, expiresAt: number) =>
      store.grant({ account: 'acme', id: `g${n}`, amount: 1n, expiresAt });
    await grant(1, NOON + 1);
    for (let n = 2; n <= 100; n++) await grant(n, NOON + DAY);
    expect(await grant(101, NOON + DAY)).toMatchObject({ code: 'too_many_lots' });
    clock.now += 1;
    expect(await grant(101, NOON + DAY)).toMatchObject({ code: 'ok', available: 100n });
  });

  it('freezes an account whose books do not add up, and repairs nothing', async () => {
    const keyPrefix = namespace();
    const store = openStore({ keyPrefix });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await redis.hincrby(`${keyPrefix}ccr:{acme}:a`, 'av', 1);
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    expect(await store.snapshot('acme')).toMatchObject({ frozen: true, available: 101n, granted: 100n });
  });

  it('does not begin anew an account of which a part is lost', async () => {
    const keyPrefix = namespace();
    const clock = { now: NOON };
    const store = openStore({ keyPrefix, now: () => clock.now });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.admit(admission(1, 30n));
    await redis.del(`${keyPrefix}ccr:{acme}:r`);
    clock.now += HOUR;
    await store.sweep(10);
    expect(await store.snapshot('acme')).toMatchObject({ frozen: true, available: 70n, held: 30n });
    await redis.del(`${keyPrefix}ccr:{acme}:a`);
    const granted = store.grant({ account: 'acme', id: 'g2', amount: 1n });
    await expect(granted).rejects.toMatchObject({ name: 'StoreUnavailable' });
    expect(await store.snapshot('acme')).toBeUndefined();
  });

  it('keeps any text as it is', async () => {
    const store = openStore();
    const odd = 'a b|c\n"\\ é 漢 \u{1f600} \ud800 -';
    await store.grant({ account: 'acme', id: 'g|1', amount: 9n, expiresAt: NOON * 2 });
    await store.adjust({ account: 'acme', id: '-', delta: -1n, reason: odd });
    await store.settle({ ...settlement(1, 1n), model: odd, usage: { ...USAGE, price: odd } });
    await store.createKey({ account: 'acme', key: '_', hash: hashOf('_'), name: odd });
    expect(await store.journal('acme', 0n, 9)).toMatchObject([
      { id: 'g|1' },
      { id: '-', reason: odd },
      { model: odd, usage: { price: odd } },
    ]);
    expect(await store.snapshot('acme')).toMatchObject({
      lots: [{ id: 'g|1' }],
      keys: [{ key: '_', name: odd }],
    });
  });

  it('trims and sweeps thousands a few at a time', async () => {
    const clock = { now: NOON };
    const store = openStore({ now: () => clock.now });
    await store.grant({ account: 'acme', id: 'g1', amount: 2000n });
    await Promise.all(Array.from({ length: 1200 }, (_, n) => store.settle(settlement(n, 1n))));
    await store.trim('acme', 1101n);
    expect(await store.snapshot('acme')).toMatchObject({ trimmed: { seq: 1101n, spent: 1100n } });
    expect((await store.journal('acme', 0n, 5)).map(({ seq }) => seq)).toEqual([
      1102n,
      1103n,
      1104n,
      1105n,
      1106n,
    ]);
    clock.now += DAY;
    expect(await store.sweep(250)).toBe(250);
    expect(await store.sweep(5000)).toBe(950);
  });

  it('keeps all of an account in one slot, all of its keys from birth, and no API key', async () => {
    const apiKey = 'sk-ccr-a-secret';
    const hash = createHash('sha256').update(apiKey).digest('hex');
    const keyPrefix = namespace();
    const store = openStore({ keyPrefix });
    const names = async (): Promise<string[]> => (await redis.keys(`${keyPrefix}*`)).toSorted();
    await store.createKey({ account: 'acme', key: 'k1', hash, name: '' });
    const fromBirth = await names();
    const [ofAcme, others] = [true, false].map((its) =>
      fromBirth.filter((name) => name.startsWith(`${keyPrefix}ccr:{acme}:`) === its),
    );
    expect(ofAcme).toHaveLength(8);
    expect(others).toEqual([`${keyPrefix}ccr:k:${hash}`, `${keyPrefix}ccr:{acct58}`]);
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.admit(admission(1, 100n));
    await store.settle(settlement(1, 100n));
    expect(await names()).toEqual(fromBirth);
    const dumps = await Promise.all(fromBirth.map((key) => redis.dumpBuffer(key)));
    expect(dumps.some((dump) => dump?.includes('k1'))).toBe(true);
    expect(dumps.some((dump) => dump?.includes(apiKey))).toBe(false);
  });

  it.each<[string, () => RedisStoreOptions]>([
    ['its own', () => ({ client: redis, keyPrefix: '{app}' })],
    ["the client's", () => ({ client: new Redis({ lazyConnect: true, keyPrefix: '{app}:' }) })],
  ])('refuses braces in %s key prefix', (_, options) => {
    expect(() => new RedisStore(options())).toThrow(/^keyPrefix must have no braces/);
  });

  it('finds no key by a hash that is not its own, whatever points at it', async () => {
    const keyPrefix = namespace();
    const store = openStore({ keyPrefix });
    await store.createKey({ account: 'acme', key: 'k1', hash: hashOf('k1'), name: '' });
    await redis.set(`${keyPrefix}ccr:k:${hashOf('k2')}`, 'acme k1');
    expect(await store.findKey(hashOf('k2'))).toBeUndefined();
  });

  it('does not let two keys have one hash, whichever comes first', async () => {
    const store = openStore();
    const make = (account: string) => store.createKey({ account, key: 'k1', hash: hashOf('k1'), name: '' });
    const codes = (await Promise.all([make('acme'), make('zeta')])).map(({ code }) => code);
    expect(codes.toSorted()).toEqual(['conflict', 'ok']);
    const owner = codes[0] === 'ok' ? 'acme' : 'zeta';
    expect(await store.findKey(hashOf('k1'))).toMatchObject({ account: owner, state: 'active' });
  });
});

describe('RedisStore, when Redis fails', () => {
  it.each([true, false])(
    'posts nothing twice by a reply that is lost, with resending %s',
    async (resending) => {
      await story(openStore());
      const relay = await startRelay();
      const client = new Redis(relay.port, { autoResendUnfulfilledCommands: resending });
      const store = openStore({ client, admitTimeoutMs: 100, timeoutMs: 100 });
      await store.grant({ account: 'acme', id: 'g1', amount: 100n });
      const repeated = async <T>(call: () => Promise<T>): Promise<T> => {
        void relay.swallow();
        await expect(call()).rejects.toMatchObject({ name: 'StoreUnavailable', applied: 'unknown' });
        relay.cut();
        await once(client, 'ready');
        return call();
      };

      const granted = await repeated(() => store.grant({ account: 'acme', id: 'g2', amount: 50n }));
      expect(granted).toMatchObject({ code: 'duplicate', available: 150n });
      const admitted = await repeated(() => store.admit(admission(1, 30n)));
      expect(admitted).toMatchObject({ code: 'exists', available: 120n });
      const settled = await repeated(() => store.settle(settlement(1, 12n)));
      expect(settled).toMatchObject({ code: 'duplicate', charged: 12n });
      await store.admit(admission(2, 30n));
      const voided = await repeated(() => store.void({ account: 'acme', requestId: requestId(2) }));
      expect(voided).toMatchObject({ code: 'duplicate' });
      expect(await store.snapshot('acme')).toMatchObject({ available: 138n, held: 0n, spent: 12n, seq: 3n });
      client.disconnect();
      await relay.close();
    },
  );

  it('answers in time though Redis does not, and then applies once what was repeated', async () => {
    const store = openStore({ timeoutMs: 900 });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.admit(admission(1, 30n));
    const thaw = await freezeServer();
    const began = performance.now();
    const waited = (call: Promise<unknown>): Promise<[unknown, number]> =>
      call.catch((error: unknown) => error).then((error) => [error, performance.now() - began]);
    const [[admitError, admitMs], [settleError, settleMs]] = await Promise.all([
      waited(store.admit(admission(2, 10n))),
      waited(store.settle(settlement(1, 12n))),
    ]);
    expect([admitError, settleError]).toMatchObject([{ applied: 'unknown' }, { applied: 'unknown' }]);
    expect(admitMs).toBeLessThan(700);
    expect(settleMs).toBeLessThan(2000);
    thaw();
    expect(await store.admit(admission(2, 10n))).toMatchObject({ code: 'exists' });
    expect(await store.settle(settlement(1, 12n))).toMatchObject({ code: 'duplicate', charged: 12n });
  });

  it('does not say that nothing was applied of a command of which only the end was refused', async () => {
    const client = clientThat(async (command) => {
      if (command === 'sadd') throw new Error('OOM command not allowed');
    });
    const store = openStore({ client });
    const granted = store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await expect(granted).rejects.toMatchObject({ applied: 'unknown' });
    expect(await store.balance('acme')).toMatchObject({ available: 100n });
  });

  it('begins nothing that it gave up, though the script has still to be sent', async () => {
    const store = openStore({ admitTimeoutMs: 50 });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await redis.script('FLUSH');
    const thaw = await freezeServer();
    await expect(store.admit(admission(1, 30n))).rejects.toMatchObject({ applied: 'unknown' });
    thaw();
    expect(await store.snapshot('acme')).toMatchObject({ available: 100n, requests: [] });
  });

  it('changes nothing by an admit that arrives after its caller gave up', async () => {
    const store = openStore({ admitTimeoutMs: 50 });
    const { now } = await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const thaw = await freezeServer();
    const late = store.admit({ ...admission(1, 30n), notAfter: now + 40 });
    await expect(late).rejects.toMatchObject({ applied: 'unknown' });
    thaw();
    expect(await store.snapshot('acme')).toMatchObject({ available: 100n, requests: [] });
  });

  it.each(['as a replica', 'without a replica'] as const)(
    'knows that nothing was applied when Redis refuses to write %s',
    async (how) => {
      const store = openStore();
      await store.grant({ account: 'acme', id: 'g1', amount: 100n });
      await store.admit(admission(1, 30n));
      const restore = await refuseWrites(how);
      const calls = [
        () => store.admit(admission(2, 10n)),
        () => store.settle(settlement(1, 12n)),
        () => store.grant({ account: 'acme', id: 'g2', amount: 1n }),
      ];
      for (const call of calls) await expect(call()).rejects.toMatchObject({ applied: 'no' });
      expect(await store.snapshot('acme')).toMatchObject({ available: 70n, held: 30n });
      await restore();
      expect(await store.settle(settlement(1, 12n))).toMatchObject({ code: 'ok' });
    },
  );

  it('does not take the refusal of a second sending for that of the first', async () => {
    const relay = await startRelay();
    const client = new Redis(relay.port);
    const store = openStore({ client });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.settle(settlement(1, 5n));
    const swallowed = relay.swallow();
    const settled = store.settle(settlement(2, 12n));
    await swallowed;
    const restore = await refuseWrites('as a replica');
    relay.cut();
    await expect(settled).rejects.toMatchObject({
      applied: 'unknown',
      cause: { message: expect.stringMatching(/^READONLY/) },
    });
    await restore();
    expect(await store.settle(settlement(2, 12n))).toMatchObject({ code: 'duplicate', charged: 12n });
    client.disconnect();
    await relay.close();
  });

  it('takes nothing new when Redis is out of memory, and settles all that runs', async () => {
    const store = openStore();
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    for (const n of [1, 2]) await store.admit(admission(n, 30n));
    await refuseWrites('without memory');
    await expect(store.admit(admission(3, 10n))).rejects.toMatchObject({ applied: 'no' });
    await expect(store.grant({ account: 'acme', id: 'g2', amount: 1n })).rejects.toMatchObject({
      applied: 'no',
    });
    expect(await store.settle(settlement(1, 12n))).toMatchObject({ code: 'ok', charged: 12n });
    expect(await store.void({ account: 'acme', requestId: requestId(2) })).toMatchObject({ code: 'ok' });
  });

  it('waits for a client that is connecting, and connects a lazy one', async () => {
    for (const lazyConnect of [true, false]) {
      const client = new Redis(server.url, { lazyConnect, enableOfflineQueue: false });
      expect(await openStore({ client }).grant({ account: 'acme', id: 'g1', amount: 1n })).toMatchObject({
        code: 'ok',
      });
      client.disconnect();
    }
  });

  it('refuses at once where nothing listens, and once the connection is lost', async () => {
    const relay = await startRelay();
    const client = new Redis(relay.port, { retryStrategy: () => 60_000 });
    client.on('error', () => {});
    const store = openStore({ client });
    await store.balance('acme');
    await relay.close();
    await once(client, 'close');
    const began = performance.now();
    await expect(store.admit(admission(1, 1n))).rejects.toMatchObject({ applied: 'no' });
    expect(performance.now() - began).toBeLessThan(200);
    client.disconnect();

    const nowhere = new Redis(relay.port, { lazyConnect: true, retryStrategy: () => 60_000 });
    nowhere.on('error', () => {});
    await expect(openStore({ client: nowhere }).admit(admission(1, 1n))).rejects.toMatchObject({
      applied: 'no',
    });
    nowhere.disconnect();
  });

  it('has no listener left once it is closed, and leaves the client open', async () => {
    const client = new Redis(server.url);
    const counts = () => client.eventNames().map((name) => `${String(name)} ${client.listenerCount(name)}`);
    const before = counts();
    const store = openStore({ client });
    const waiting = store.balance('acme');
    await store.close();
    await expect(waiting).rejects.toMatchObject({ applied: 'no' });
    expect(counts()).toEqual(before);
    await once(client, 'ready');
    await expect(store.balance('acme')).rejects.toMatchObject({ applied: 'no' });
    expect(await client.ping()).toBe('PONG');
    client.disconnect();
  });
});

let namespaces = 0;

/** A key prefix that nobody had. */
function namespace(): string {
  return `test${namespaces++}:`;
}

const opened: RedisStore[] = [];

/** A store that is closed when its test ends. */
function openStore(options: Partial<RedisStoreOptions> = {}): RedisStore {
  const store = new RedisStore({ client: redis, keyPrefix: namespace(), ...options });
  opened.push(store);
  return store;
}

/** The client of all tests, with something done before each of its commands. */
function clientThat(does: (command: string) => Promise<void>): RedisClient {
  const createBuiltinCommand: RedisClient['createBuiltinCommand'] = (command) => ({
    string: async (...args) => {
      await does(command);
      return redis.createBuiltinCommand(command).string.apply(redis, args);
    },
  });
  return Object.create(redis, { createBuiltinCommand: { value: createBuiltinCommand } });
}

function admission(n: number, want: bigint): Admit {
  return {
    account: 'acme',
    key: 'label',
    externalKey: true,
    requestId: requestId(n),
    want,
    min: want,
    leaseMs: MINUTE,
    tokens: 0,
    notAfter: Infinity,
  };
}

function settlement(n: number, amount: bigint): Settle {
  return {
    account: 'acme',
    requestId: requestId(n),
    amount,
    key: 'label',
    model: 'some/model',
    usage: USAGE,
    force: true,
  };
}

/** Every command once, with its reply. */
async function story(store: LedgerStore): Promise<unknown> {
  const account = 'acme';
  const key = { account, key: 'k1', hash: hashOf('k1'), name: 'n', limits: { requestsPerMinute: 9 } };
  const replies: unknown[] = [
    await store.createKey(key),
    await store.grant({ account, id: 'g1', amount: 100n }),
    await store.adjust({ account, id: 'a1', delta: -10n, reason: 'why' }),
    await store.admit({ ...admission(1, 30n), key: 'k1', externalKey: false }),
    await store.extend({ account, requestId: requestId(1), hold: 40n, leaseMs: MINUTE, checkpoint: 5n }),
    await store.settle(settlement(1, 12n)),
    await store.admit(admission(2, 30n)),
    await store.void({ account, requestId: requestId(2) }),
    await store.freeze(account, true),
    await store.balance(account),
    await store.findKey(hashOf('k1')),
    await store.revokeKey(account, 'k1'),
    await store.keys(account),
    await store.sweep(10),
    await store.journal(account, 1n, 10),
    await store.trim(account, 1n),
    await everything(store),
  ];
  for await (const each of store.accounts()) replies.push(each);
  return replies;
}

/** State and journal of `acme`. */
async function everything(store: LedgerStore): Promise<{ state: object; lines: readonly object[] }> {
  const state = await store.snapshot('acme');
  const requests = state?.requests.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const keys = state?.keys.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  return { state: { ...state, requests, keys }, lines: await store.journal('acme', 0n, 1000) };
}

/** How Redis is told to refuse what writes, and to accept it again. */
const REFUSALS = {
  'as a replica': { begin: ['replicaof', '127.0.0.1', '1'], end: ['replicaof', 'no', 'one'] },
  'without a replica': {
    begin: ['config', 'set', 'min-replicas-to-write', '1'],
    end: ['config', 'set', 'min-replicas-to-write', '0'],
  },
  'without memory': {
    begin: ['config', 'set', 'maxmemory', '1'],
    end: ['config', 'set', 'maxmemory', '0'],
  },
} as const;

/** Makes Redis refuse what writes, and answers how to end that, which the end of the test does in any case. */
async function refuseWrites(how: keyof typeof REFUSALS): Promise<() => Promise<void>> {
  const { begin, end } = REFUSALS[how];
  const administer = async ([command, ...args]: readonly [string, ...string[]]): Promise<void> => {
    await redis.call(command, ...args);
  };
  onTestFinished(() => administer(end));
  await administer(begin);
  return () => administer(end);
}

/** Stops the server where it is, and answers how to let it go on, which it does after the test in any case. */
async function freezeServer(): Promise<() => void> {
  const pid = Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1]);
  const thaw = (): void => void process.kill(pid, 'SIGCONT');
  onTestFinished(thaw);
  process.kill(pid, 'SIGSTOP');
  return thaw;
}

interface Relay {
  readonly port: number;
  /** From the next reply on, replies are lost until the connection is. Resolves with the first. */
  swallow(): Promise<void>;
  cut(): void;
  close(): Promise<void>;
}

/** Stands between a client and Redis. */
async function startRelay(): Promise<Relay> {
  const sockets = new Set<Socket>();
  let swallowed: (() => void) | undefined;
  const relay = createServer((client) => {
    const upstream = connect(server.port, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (bytes) => upstream.write(bytes));
    upstream.on('data', (bytes) => {
      if (swallowed) swallowed();
      else client.write(bytes);
    });
  }).listen(0, '127.0.0.1');
  await once(relay, 'listening');
  const { port } = relay.address() as AddressInfo;
  const cut = (): void => {
    swallowed = undefined;
    for (const socket of sockets) socket.destroy();
  };
  return {
    port,
    swallow: () => new Promise((resolve) => (swallowed = resolve)),
    cut,
    close: async () => {
      relay.close();
      cut();
      await once(relay, 'close');
    },
  };
}
