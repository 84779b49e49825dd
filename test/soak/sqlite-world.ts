import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { World } from './world.ts';

/** One file for all gateways. */
export async function startSqliteWorld(places: number): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-soak-'));
  const url = `sqlite:${join(folder, 'credits.db')}`;
  return {
    storeUrls: Array.from({ length: places }, () => url),
    booksUrl: () => url,
    nemeses: {},
    close: async () => rmSync(folder, { recursive: true, force: true }),
  };
}
