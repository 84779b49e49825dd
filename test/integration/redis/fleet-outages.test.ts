import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import { RedisStore } from '../../../src/ledger/stores/redis/redis-store.ts';
import { Capacity } from '../../../src/upstream/capacity.ts';
import { FleetHealth } from '../../../src/upstream/fleet-health.ts';
import { FleetSync } from '../../../src/upstream/fleet-sync.ts';
import { type RedisServer, startRedis } from '../../helpers/redis-server.ts';

const LIMIT = 10;
const target = {
  provider: { name: 'loopback', limits: { requestsPerMinute: LIMIT } },
  healthKey: 'model',
} as unknown as Target;

let server: RedisServer;
let now: number;
let closings: (() => Promise<void>)[];

// Time passes by steps.
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  server = await startRedis();
  now = 1_000_000;
  closings = [() => server.stop()];
});
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closings.toReversed()) await close();
});

interface Member {
  readonly capacity: Capacity;
  readonly errors: string[];
  readonly tick: () => Promise<void>;
  /** Takes what it can get; returns how many. */
  readonly take: (most?: number) => number;
}

function member(): Member {
  const errors: string[] = [];
  const store = new RedisStore({ client: server.url, now: () => now, timeoutMs: 500 });
  const sync = new FleetSync({
    view: store.fleet,
    onError: ({ message }) => errors.push(message),
    health: new FleetHealth(),
    now: () => now,
  });
  const capacity = new Capacity({ fleet: sync, now: () => now });
  closings.push(async () => {
    await sync.close();
    await store.close();
  });
  return {
    capacity,
    errors,
    tick: () => sync.tick(),
    take: (most = Infinity) => {
      let taken = 0;
      while (taken < most && capacity.waitMs(target, '', 1) === 0) {
        capacity.take(target, '', 1).end(1);
        taken += 1;
      }
      return taken;
    },
  };
}

it('without Redis a process goes on alone, says so once, and tells what it sent when Redis is back, with nothing left on its disk', async () => {
  const [one, other] = [member(), member()];
  one.take(1);
  await one.tick();
  other.take(1);
  await other.tick();
  await server.restart(async () => {
    now += 1000;
    await one.tick();
    await one.tick();
    // The last word of the fleet holds for two seconds: no more than what was granted.
    expect(one.take()).toBeLessThan(LIMIT - 2);
    now += 2000;
    one.take();
    await one.tick();
  });
  expect(one.errors).toEqual([expect.stringMatching(/^The fleet's view of providers is unavailable: /)]);
  await expect
    .poll(async () => {
      await one.tick();
      await other.tick();
      now += 250;
      return other.take(1);
    })
    .toBe(0);
  await other.tick();
  expect(other.take()).toBe(0);
  // The minute is over for all.
  now += 62_000;
  await one.tick();
  await other.tick();
  expect(other.take(1)).toBe(1);
  expect(one.errors).toHaveLength(1);
});

it('what a provider said to one process counts in the others, also if Redis was away meanwhile', async () => {
  const [one, other] = [member(), member()];
  one.capacity.exhausted(target, 'key', 60_000);
  await server.restart(() => one.tick());
  await expect
    .poll(async () => {
      await one.tick();
      await other.tick();
      return other.capacity.exhaustedMs(target, 'key', 1);
    })
    .toBe(60_000);
  now += 59_000;
  expect(other.capacity.exhaustedMs(target, 'key', 1)).toBe(1000);
  expect(other.capacity.concerns([target])).toBe(true);
});

it('a process lets one request through beyond its part, where much is left, and no more', async () => {
  const running = { concurrentRequests: 100 };
  const many = { ...target, provider: { name: 'loopback', limits: running } } as unknown as Target;
  const [one, other] = [member(), member()];
  for (const { capacity, tick } of [one, other]) {
    expect(capacity.waitMs(many, '', 1)).toBe(0);
    capacity.take(many, '', 1).end();
    await tick();
    await tick();
  }
  let taken = 0;
  while (other.capacity.waitMs(many, '', 1) === 0) {
    other.capacity.take(many, '', 1);
    taken += 1;
  }
  // Each has what it wants, and a quarter of what the other one leaves.
  expect(taken).toBe(14);
  expect(other.capacity.waitMs(many, '', 1)).toBe(250);
});

it('what one process says is known to the others by their next report, whenever it is', async () => {
  const [one, other] = [member(), member()];
  for (let n = 1; n <= 5; n++) {
    one.capacity.exhausted(target, `key ${n}`, 60_000);
    await one.tick();
    await other.tick();
    expect(other.capacity.exhaustedMs(target, `key ${n}`, 1)).toBe(60_000);
  }
});

const told = { provider: { name: 'told' }, healthKey: 'model', model: 'model' } as unknown as Target;

/** An answer of the provider says that this much is left. */
function hear({ capacity }: Member, left: number): void {
  const requests = { left, resetMs: 60_000 };
  capacity.answered(told, '', capacity.sent(told, '', 1), { exhaustedMs: 0, requests });
}

/** Sends what it may; returns how many. */
function send({ capacity }: Member): number {
  let sent = 0;
  for (; sent < 100 && capacity.exhaustedMs(told, '', 1) === 0; sent++) capacity.sent(told, '', 1);
  return sent;
}

it('what a process sent while little was left for others only is not counted when it shares again', async () => {
  const [one, other] = [member(), member()];
  for (const each of [one, other]) {
    hear(each, 7);
    await each.tick();
    await each.tick();
  }
  // One has plenty, and leaves after a minute; the other one goes on.
  for (let n = 0; n < 300; n++, now += 250) {
    hear(one, 100_000);
    if (n % 20 === 0) hear(other, 5);
    await one.tick();
    await other.tick();
  }
  let sent = 0;
  hear(one, 5);
  for (let n = 0; n < 10; n++, now += 250) {
    for (const each of [one, other]) {
      await each.tick();
      sent += send(each);
    }
  }
  expect(sent).toBe(5);
});

it('what a provider says is left is divided among the processes, and counted by each alone while Redis is away', async () => {
  const [one, other] = [member(), member()];
  // By its own word, either would send 7.
  for (const each of [one, other]) {
    hear(each, 7);
    await each.tick();
    await each.tick();
  }
  let sent = 0;
  for (let n = 0; n < 10; n++, now += 250) {
    for (const each of [one, other]) {
      sent += send(each);
      await each.tick();
    }
  }
  expect(sent).toBe(7);
  expect(one.errors).toEqual([]);
  await server.stop();
  hear(other, 5);
  now += 2001;
  expect(send(other)).toBe(5);
  expect(other.capacity.exhaustedMs(told, '', 1)).toBe(57_999);
});
