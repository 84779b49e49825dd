import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { loadConfig } from '../../../src/cli/config/config-file.ts';
import { createChatCompletionsRouter } from '../../../src/index.ts';
import { assertVersion } from '../../../src/upstream/transport/load-undici.ts';
import { undiciTransport } from '../../../src/undici.ts';

it('names a wrong option', () => {
  const wrong = { allowH2: 'yes' } as unknown as { allowH2: boolean };
  expect(() => undiciTransport(wrong)).toThrow('undiciTransport.allowH2 must be true or false');
  expect(() => undiciTransport({ allowH3: true } as object)).toThrow('allowH3');
});

it.each(['6.21.0', '7.9.0', '7.15.1'])('is not made with undici %s', (version) => {
  expect(() => assertVersion(version)).toThrow(
    `undiciTransport needs undici 7.16 or later, and ${version} is installed: npm install undici@latest`,
  );
});

it.each(['7.16.0', '7.30.2', '8.0.0', '10.1.0'])('can be made with undici %s', (version) => {
  expect(() => assertVersion(version)).not.toThrow();
});

const withoutWarmth = { create: (): object => ({ send: () => {}, close: () => {} }) };

it.each([['undici'], [{}], [{ create: (): object => ({}) }], [withoutWarmth]])('is no %j', (given) => {
  const options = { store: 'memory:', providers: {}, models: {}, transport: given };
  expect(() => createChatCompletionsRouter(options as never)).toThrow(/^transport[ .]/);
});

it('is "undici" in a JSON config', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'ccr-transport-')), 'config.json');
  writeFileSync(path, JSON.stringify({ transport: 'undici', providers: {}, models: {} }));
  const { transport } = await loadConfig(path);
  expect(transport?.create()).toHaveProperty('send');
});
