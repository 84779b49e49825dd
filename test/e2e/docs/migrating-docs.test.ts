import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, describe, expect, it } from 'vitest';

import { asPattern, consoleExamples, firstBlock, npxFolder, steady } from '../../helpers/console-examples.ts';

const PAGE = 'migrating.md';

/** As GET /key/list?return_full_object=true answers. */
const KEYS = {
  keys: [
    { token: 'a'.repeat(64), key_alias: 'prod', models: ['gpt-4o-mini'], max_budget: 10, team_id: 'acme' },
  ],
};

describe(`docs/${PAGE}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-migrating-'));
  const env = { PATH: `${npxFolder(folder)}:${process.env['PATH']}`, OPENAI_API_KEY: 'x' };
  writeFileSync(join(folder, 'config.yaml'), firstBlock(PAGE, 'yaml'));
  writeFileSync(join(folder, 'keys.json'), JSON.stringify(KEYS));

  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  it.each(consoleExamples(PAGE))('is true of $command', async ({ command, output }) => {
    const child = spawn('sh', ['-c', `exec 2>&1; ${command}`], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    expect(steady(await text(child.stdout))).toMatch(asPattern(steady(output)));
  });
});
