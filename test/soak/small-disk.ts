import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { startRedisWorld } from './redis-world.ts';
import { drawMs } from './stage.ts';
import type { World } from './world.ts';

const BYTES = 512 * 1024;

/** One Redis, and a disk for the outboxes that can be full; undefined where no disk can be mounted. */
export async function startSmallDiskWorld(places: number): Promise<World | undefined> {
  const disk = mkdtempSync(join(tmpdir(), 'ccr-soak-disk-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${BYTES}`, 'tmpfs', disk]);
  if (mounted.status !== 0) {
    rmSync(disk, { recursive: true });
    return undefined;
  }
  const world = await startRedisWorld(places);
  const filler = join(disk, 'filler');
  return {
    ...world,
    outboxDir: disk,
    nemeses: {
      ...world.nemeses,
      fillDisk: {
        name: 'fill the disk of the outboxes',
        group: 'gateways',
        async strike(stage) {
          for (let bytes = BYTES; bytes >= 1; bytes = Math.floor(bytes / 2)) append(filler, bytes);
          await pause(drawMs(stage, 1, 12));
          rmSync(filler, { force: true });
        },
      },
    },
    close: async () => {
      await world.close();
      spawnSync('umount', [disk]);
      rmSync(disk, { recursive: true, force: true });
    },
  };
}

/** As much of it as fits. */
function append(file: string, bytes: number): void {
  try {
    writeFileSync(file, Buffer.alloc(bytes), { flag: 'a' });
  } catch {
    // That is what it is for.
  }
}
