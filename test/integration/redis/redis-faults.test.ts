import { once } from 'node:events';

import { Redis } from 'ioredis';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';

import type { RedisClient } from '../../../src/ledger/stores/redis/redis-client.ts';
import { RedisStore, type RedisStoreOptions } from '../../../src/ledger/stores/redis/redis-store.ts';
import { requestId } from '../../contracts/ledger-fixture.ts';
import { admission, namespace, settlement, story } from '../../helpers/redis-ledger.ts';
import { startRelay } from '../../helpers/redis-relay.ts';
import type { RedisServer } from '../../helpers/redis-server.ts';
import { useRedis } from '../../helpers/use-redis.ts';

let server: RedisServer;
let redis: Redis;

useRedis((own) => ({ server, redis } = own));

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

describe('RedisStore, when Redis fails', () => {
  it.each([true, false])(
    'posts nothing twice by a reply that is lost, with resending %s',
    async (resending) => {
      await story(openStore());
      const relay = await startRelay(server.port);
      const client = new Redis(relay.port, { autoResendUnfulfilledCommands: resending });
      const store = openStore({ client, timeoutMs: 100 });
      await store.grant({ account: 'acme', id: 'g1', amount: 100n });
      const repeated = async <T>(call: () => Promise<T>, replies = 0): Promise<T> => {
        void relay.swallow(replies);
        await expect(call()).rejects.toMatchObject({ name: 'StoreUnavailableError', applied: 'unknown' });
        relay.cut();
        await once(client, 'ready');
        return call();
      };

      // The first reply tells whether there are replicas.
      const granted = await repeated(() => store.grant({ account: 'acme', id: 'g2', amount: 50n }), 1);
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

  it('answers where its client throws at once, and is not closed before', async () => {
    const throwing: RedisClient = Object.create(redis, {
      createBuiltinCommand: {
        value: (command: string) => {
          if (command !== 'info') throw new RangeError('Invalid string length');
          return redis.createBuiltinCommand(command);
        },
      },
    });
    const store = openStore({ client: throwing });
    const refusal = { name: 'StoreUnavailableError', applied: 'unknown', cause: { name: 'RangeError' } };
    // The first waits until the server is checked.
    await expect(store.balance('acme')).rejects.toMatchObject(refusal);
    await expect(store.settle(settlement(1, 1n))).rejects.toMatchObject(refusal);
    await store.close();
  });

  it('answers in time though Redis does not, and then applies once what was repeated', async () => {
    const store = openStore({ timeoutMs: 250 });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await store.admit(admission(1, 30n));
    const thaw = await freezeServer();
    // It answers nothing until it is thawed.
    const errors = await Promise.all(
      [store.admit(admission(2, 10n)), store.settle(settlement(1, 12n))].map((call) =>
        call.catch((error: unknown) => error),
      ),
    );
    expect(errors).toMatchObject([{ applied: 'unknown' }, { applied: 'unknown' }]);
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
    const store = openStore({ timeoutMs: 200 });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    await redis.script('FLUSH');
    await redis.function('FLUSH');
    const thaw = await freezeServer();
    await expect(store.admit(admission(1, 30n))).rejects.toMatchObject({ applied: 'unknown' });
    thaw();
    expect(await store.snapshot('acme')).toMatchObject({ available: 100n, requests: [] });
  });

  it('changes nothing by an admit that arrives after its caller gave up', async () => {
    const store = openStore({ timeoutMs: 200 });
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
    const relay = await startRelay(server.port);
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

  it('asks again what the server is when the answer was lost', async () => {
    const relay = await startRelay(server.port);
    const client = new Redis(relay.port, { autoResendUnfulfilledCommands: false });
    const store = openStore({ client });
    await once(client, 'ready');
    const lost = relay.swallow();
    const first = store.balance('acme').catch((error: unknown) => error);
    await lost;
    relay.cut();
    await once(client, 'ready');
    await first;
    expect(await store.balance('acme')).toBeUndefined();
    client.disconnect();
    await relay.close();
  });

  it('refuses at once where nothing listens, and once the connection is lost', async () => {
    const relay = await startRelay(server.port);
    const client = new Redis(relay.port, { retryStrategy: () => 60_000 });
    client.on('error', () => {});
    const store = openStore({ client });
    await store.balance('acme');
    await relay.close();
    await once(client, 'close');
    // One that was sent and waited for would be `unknown`.
    await expect(store.admit(admission(1, 1n))).rejects.toMatchObject({ applied: 'no' });
    client.disconnect();

    const nowhere = new Redis(relay.port, { lazyConnect: true, retryStrategy: () => 60_000 });
    nowhere.on('error', () => {});
    await expect(openStore({ client: nowhere }).admit(admission(1, 1n))).rejects.toMatchObject({
      applied: 'no',
    });
    nowhere.disconnect();
  });

  it('tells each listener of a lost connection, before anything that another one answers', async () => {
    const relay = await startRelay(server.port);
    const client = new Redis(relay.port);
    const store = openStore({ client });
    const told: string[] = [];
    store.onConnectionLost(() => told.push('first'));
    store.onConnectionLost(() => told.push('second'));
    await store.balance('acme');
    expect(told).toEqual([]);
    relay.cut();
    await once(client, 'ready');
    await store.balance('acme').then(() => told.push('answered'));
    expect(told).toEqual(['first', 'second', 'answered']);
    client.disconnect();
    await relay.close();
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
