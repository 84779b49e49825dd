import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';

describe("store: 'memory:'", () => {
  const credits = async (): Promise<string> => {
    const router = createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {} });
    await router.credits.grant('acme', '5.00', { id: randomUUID() });
    const { balance } = await router.credits.balance('acme');
    await router.close();
    return balance;
  };

  afterEach(() => vi.unstubAllEnvs());

  it("is each router's own", async () => {
    expect([await credits(), await credits()]).toEqual(['5.00', '5.00']);
  });

  it('is one under Next.js, which evaluates the same module again for each bundle', async () => {
    vi.stubEnv('NEXT_RUNTIME', 'nodejs');
    expect([await credits(), await credits()]).toEqual(['5.00', '10.00']);
  });
});

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
