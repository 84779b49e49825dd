import { readdirSync, readFileSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { Redis } from 'ioredis';

import { type RedisServer, startRedis } from '../helpers/redis-server.ts';
import { Link, type LinkState } from './link.ts';
import { drawMs, type Nemesis } from './stage.ts';
import type { World } from './world.ts';

const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'everysec', '--auto-aof-rewrite-percentage', '0'];

/** One Redis, to which each gateway has a link of its own. */
export async function startRedisWorld(places: number): Promise<World> {
  const server = await startRedis(DURABLE);
  const admin = clientOf(server);
  const links = await Promise.all(Array.from({ length: places }, () => new Link(server.port).open()));
  return {
    storeUrls: links.map(({ port }) => `redis://127.0.0.1:${port}`),
    booksUrl: () => server.url,
    nemeses: { ...dataNemeses(server, admin), ...refusals(admin), ...networkNemeses(links) },
    close: async () => {
      admin.disconnect();
      await Promise.all(links.map((link) => link.close()));
      await server.kill();
    },
  };
}

/** A client that comes back by itself. */
export function clientOf(server: RedisServer): Redis {
  const client = new Redis(server.port, { retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on('error', () => {});
  return client;
}

function dataNemeses(server: RedisServer, admin: Redis): Record<string, Nemesis> {
  return {
    killRedis: {
      name: 'kill Redis',
      group: 'store',
      async strike(stage) {
        await server.restart(() => pause(drawMs(stage, 0.05, 8)));
      },
    },
    freezeRedis: {
      name: 'freeze Redis',
      group: 'store',
      async strike(stage) {
        server.freeze();
        await pause(drawMs(stage, 0.3, 8));
        server.thaw();
      },
    },
    rollBackRedis: {
      name: 'roll Redis back',
      group: 'store',
      async strike(stage, fault) {
        const mark = { at: Date.now(), size: statSync(appendFile(server)).size };
        const lagMs = drawMs(stage, 0.2, 30);
        fault.notes.push(`${lagMs} ms`);
        await pause(lagMs);
        const downMs = drawMs(stage, 0.05, 3);
        await server.restart(async () => {
          fault.startedAt = Date.now();
          stage.timeline.losses.push({ from: mark.at, to: fault.startedAt });
          truncateSync(appendFile(server), mark.size);
          await pause(downMs);
        });
      },
    },
    /** As a machine that loses power with a gateway on it. */
    rollBackWithGateway: {
      name: 'roll Redis back and kill a gateway',
      group: 'both',
      async strike(stage, fault) {
        const place = stage.places[stage.random.below(stage.places.length)]!;
        const mark = { at: Date.now(), size: statSync(appendFile(server)).size };
        const lagMs = drawMs(stage, 0.2, 2);
        fault.notes.push(`${lagMs} ms`, `gateway ${place.place}`);
        await pause(lagMs);
        await server.restart(async () => {
          fault.startedAt = Date.now();
          stage.timeline.losses.push({ from: mark.at, to: fault.startedAt });
          truncateSync(appendFile(server), mark.size);
          // Answers end meanwhile, and their charges wait in the outbox.
          await pause(drawMs(stage, 0.5, 3));
          await place.kill();
        });
        await place.start();
      },
    },
    flushRedis: {
      name: 'flush Redis and restore it',
      group: 'store',
      async strike(stage, fault) {
        await admin.call('FLUSHALL');
        const flushedAt = Date.now();
        const emptyMs = drawMs(stage, 1, 10);
        fault.notes.push(`${emptyMs} ms`);
        await pause(emptyMs);
        await server.restart(() => {
          stage.timeline.empty.push({ from: flushedAt, to: Date.now() });
          cutBeforeFlush(server);
        });
      },
    },
  };
}

function refusals(admin: Redis): Record<string, Nemesis> {
  const setFor = (name: string, setting: string, value: string, usual: string): Nemesis => ({
    name,
    group: 'store',
    async strike(stage) {
      await admin.config('SET', setting, value);
      await pause(drawMs(stage, 0.3, 5));
      await admin.config('SET', setting, usual);
    },
  });
  return {
    fillMemory: setFor('fill the memory of Redis', 'maxmemory', '1', '0'),
    refuseWrites: setFor('take the replicas away', 'min-replicas-to-write', '1', '0'),
    flushScripts: {
      name: 'flush scripts',
      group: 'store',
      async strike() {
        for (let n = 0; n < 20; n++) {
          await admin.script('FLUSH');
          await pause(50);
        }
      },
    },
    killClients: {
      name: 'kill the clients of Redis',
      group: 'store',
      async strike() {
        for (let n = 0; n < 5; n++) {
          await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
          await pause(300);
        }
      },
    },
    pauseClients: {
      name: 'pause the clients of Redis',
      group: 'store',
      async strike(stage) {
        const ms = drawMs(stage, 0.2, 3);
        await admin.call('CLIENT', 'PAUSE', ms, stage.random.chance(0.5) ? 'WRITE' : 'ALL');
        await pause(ms);
      },
    },
  };
}

function networkNemeses(links: readonly Link[]): Record<string, Nemesis> {
  const states: readonly [LinkState, ...LinkState[]] = ['refuse', 'hold', 'forget', 'mute', 'slow'];
  return {
    breakLinks: {
      name: 'break links',
      group: 'store',
      async strike(stage, fault) {
        const state = stage.random.pick(states);
        const isForAll = stage.random.chance(0.3);
        const chosen = isForAll ? links : [links[stage.random.below(links.length)]!];
        fault.notes.push(`${state}, ${isForAll ? 'all gateways' : `gateway ${links.indexOf(chosen[0]!)}`}`);
        for (const link of chosen) link.state = state;
        await pause(drawMs(stage, 0.2, 10));
        for (const link of chosen) link.state = 'pass';
      },
    },
    cutLinks: {
      name: 'reset connections',
      group: 'store',
      async strike(stage) {
        for (let n = 0; n < 10; n++) {
          links[stage.random.below(links.length)]!.cut();
          await pause(stage.random.between(20, 400));
        }
      },
    },
  };
}

function appendFile({ directory }: RedisServer): string {
  const folder = join(directory, 'appendonlydir');
  const name = readdirSync(folder).find((each) => each.endsWith('.incr.aof'));
  if (name === undefined) throw new Error('Redis has no append-only file');
  return join(folder, name);
}

/** Ends the append-only file right before the last FLUSHALL. */
function cutBeforeFlush(server: RedisServer): void {
  const file = appendFile(server);
  const at = readFileSync(file).lastIndexOf('*1\r\n$8\r\nFLUSHALL\r\n');
  if (at < 0) throw new Error('The append-only file has no FLUSHALL');
  truncateSync(file, at);
}
