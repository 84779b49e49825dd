import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { run } from './run-in-process.ts';

const CREATE = ['sessions', 'create', 'acme', '--origins', 'https://chat.example.com', '--ttl', '900'];

describe('the commands sessions', () => {
  let folder: string;
  let config: { store: string; providers: {}; models: {}; sessions?: { secret: string } };

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ccr-sessions-'));
    config = {
      store: `sqlite:${folder}/credits.db`,
      providers: {},
      models: {},
      sessions: { secret: 'a secret of the test, of 32 characters or more' },
    };
    writeConfig();
    const router = createChatCompletionsRouter(config);
    await router.credits.grant('acme', '5.00', { id: 'welcome' });
    await router.close();
  });

  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  function writeConfig(): void {
    writeFileSync(join(folder, 'chat-completions-router.config.json'), JSON.stringify(config));
  }

  it('make a session that gateways of the config accept, and revoke it', async () => {
    const args = [...CREATE, '--max-spend', '0.50', '--user', 'ann', '--models', 'openai/*'];
    const created = await run(args, { folder });
    expect(created).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ses-\S+\n$/) });
    const session = created.stdout.trim();
    const [, id] = /created session (\S+), valid until/.exec(created.stderr) ?? [];

    const router = createChatCompletionsRouter(config);
    const credits = (): Promise<Response> =>
      router.fetch(
        new Request('http://localhost/credits', { headers: { authorization: `Bearer ${session}` } }),
      );
    expect(await (await credits()).json()).toMatchObject({ balance: '0.50' });
    const revoked = await run(['sessions', 'revoke', session], { folder });
    expect(revoked).toMatchObject({ code: 0, stdout: `acme: revoked session ${id}\n` });
    expect(await router.keys.list('acme')).toMatchObject([{ id, name: 'ann', state: 'revoked' }]);
    await router.close();
  });

  it('sign the markup of a session', async () => {
    const created = await run([...CREATE, '--max-spend', '0.50', '--markup', '1.25'], { folder });
    const [, claims = ''] = created.stdout.split(/[-.]/);
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({
      markup: { factor: '1.25' },
    });
  });

  it('name what is wrong, and change nothing', async () => {
    for (const [args, code, message] of [
      [CREATE, 2, '--max-spend'],
      [[...CREATE, '--max-spend', '0'], 2, 'maxSpend must be more than 0, got 0'],
      [[...CREATE.slice(0, -1), '86401', '--max-spend', '1'], 2, '--ttl must be at most 86400, got 86401'],
      [[...CREATE, '--max-spend', '1', '--markup', 'much'], 2, 'markup'],
      [['sessions', 'create', 'none', ...CREATE.slice(3), '--max-spend', '1'], 1, 'there is no account none'],
      [['sessions', 'revoke', 'ses-of.another'], 1, 'this is no session'],
    ] as const) {
      const ended = await run(args, { folder });
      expect(ended).toMatchObject({ code, stdout: '' });
      expect(ended.stderr).toContain(message);
    }
    delete config.sessions;
    writeConfig();
    const without = await run([...CREATE, '--max-spend', '1'], { folder });
    expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining('sessions.secret') });
    rmSync(join(folder, 'chat-completions-router.config.json'));
    const store = ['--store', config.store];
    const alone = await run([...CREATE, '--max-spend', '1', ...store], { folder });
    expect(alone).toMatchObject({ code: 2, stderr: expect.stringContaining('--config FILE') });
  });
});
