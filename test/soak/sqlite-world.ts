import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { drawMs, type Nemesis } from './stage.ts';
import type { World } from './world.ts';

/** What SQLite keeps on the disk; the index of its log is made again. */
const PARTS = ['', '-wal'];

/** One file for all gateways. */
export async function startSqliteWorld(places: number): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-soak-'));
  const file = join(folder, 'credits.db');
  const url = `sqlite:${file}`;
  return {
    storeUrls: Array.from({ length: places }, () => url),
    booksUrl: () => url,
    nemeses: { cutPower: cutPower(file) },
    close: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

/**
 * All gateways die, and of the file remains what it was a moment before.
 *
 * Charges alone are written meanwhile: they wait for no sync, all else does. What is in the outboxes stays.
 */
function cutPower(file: string): Nemesis {
  return {
    name: 'cut the power',
    group: 'both',
    async strike(stage, fault) {
      const { places, operators, timeline } = stage;
      const release = await operators.hold();
      for (const place of places) place.stop();
      for (const part of PARTS) copy(`${file}${part}`, `${file}.kept${part}`);
      const from = Date.now();
      for (const place of places) place.continue();
      const ms = drawMs(stage, 0.1, 2);
      fault.notes.push(`${ms} ms`);
      await pause(ms);
      fault.startedAt = Date.now();
      await Promise.all(places.map((place) => place.kill()));
      timeline.losses.push({ from, to: Date.now() });
      rmSync(`${file}-shm`, { force: true });
      for (const part of PARTS) copy(`${file}.kept${part}`, `${file}${part}`);
      await Promise.all(places.map((place) => place.start()));
      release();
    },
  };
}

function copy(from: string, to: string): void {
  rmSync(to, { force: true });
  if (existsSync(from)) copyFileSync(from, to);
}
