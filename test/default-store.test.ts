import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createChatCompletionsRouter } from '../src/index.ts';

describe('a router that is not told where its credits are', () => {
  const before = process.cwd();
  let folder: string;

  beforeEach(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'ccr-default-')));
    process.chdir(folder);
  });

  afterEach(() => {
    process.chdir(before);
    rmSync(folder, { recursive: true });
    vi.restoreAllMocks();
  });

  it('keeps them in ./credits.db, made by its first command, and says so once', async () => {
    const said = vi.spyOn(console, 'info').mockReturnValue();
    const file = join(folder, 'credits.db');
    const router = createChatCompletionsRouter({ providers: {}, models: {} });
    process.chdir(before);
    expect(existsSync(file)).toBe(false);

    await router.credits.grant('acme', '5.00', { id: 'g1' });
    await router.credits.balance('acme');
    await router.close();
    expect(existsSync(file)).toBe(true);
    expect(said.mock.calls).toEqual([[`chat-completions-router: credits and keys are kept in ${file}`]]);
  });

  it('finds them again', async () => {
    vi.spyOn(console, 'info').mockReturnValue();
    for (const balance of ['5.00', '10.00']) {
      const router = createChatCompletionsRouter({ providers: {}, models: {} });
      await router.credits.grant('acme', '5.00', { id: balance });
      expect(await router.credits.balance('acme')).toMatchObject({ balance });
      await router.close();
    }
  });
});
