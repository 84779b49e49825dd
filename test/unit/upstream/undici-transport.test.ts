import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { loadConfig } from '../../../src/cli/config/config-file.ts';
import { createChatCompletionsRouter } from '../../../src/index.ts';
import { undiciTransport } from '../../../src/undici.ts';

it('names a wrong option', () => {
  const wrong = { allowH2: 'yes' } as unknown as { allowH2: boolean };
  expect(() => undiciTransport(wrong)).toThrow('undiciTransport.allowH2 must be true or false');
  expect(() => undiciTransport({ allowH3: true } as object)).toThrow('allowH3');
});

it.each([['undici'], [{}], [{ create: (): object => ({}) }]])('is no %j', (given) => {
  const options = { store: 'memory:', providers: {}, models: {}, transport: given };
  expect(() => createChatCompletionsRouter(options as never)).toThrow(/^transport[ .]/);
});

it('is "undici" in a JSON config', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'ccr-transport-')), 'config.json');
  writeFileSync(path, JSON.stringify({ transport: 'undici', providers: {}, models: {} }));
  const { transport } = await loadConfig(path);
  expect(transport?.create()).toHaveProperty('send');
});
