import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson } from '../../helpers/provider.ts';
import { run } from './run-in-process.ts';

describe('the commands requests', () => {
  let folder: string;
  let store: string;
  let good = '';
  let bad = '';

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ccr-requests-'));
    store = `sqlite:${folder}/credits.db`;
    const gateway = await startGateway({ store, retries: false });
    const ask = async (): Promise<string> => {
      const response = await gateway.post(QUESTION);
      await response.text();
      return response.headers.get('x-request-id') ?? '';
    };
    good = await ask();
    gateway.provider.script = answerJson('{"error":{"message":"\\u001b[2Jno","code":"\\u001b[2Jfull"}}', 503);
    bad = await ask();
    await gateway.close();
  });

  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  const command = async (...args: string[]): Promise<Awaited<ReturnType<typeof run>>> =>
    run(['requests', ...args, '--store', store], { folder });

  it('list what was asked, as a table, as JSON and as CSV', async () => {
    const { code, stdout } = await command('list', '--account', 'acct');
    expect(code).toBe(0);
    const [head = '', ...rows] = stdout.trimEnd().split('\n');
    expect(head).toMatch(
      /^TIME +REQUEST +ACCOUNT +MODEL +PROVIDER +STATUS +CODE +FIRST BYTE +TOTAL +CHARGED$/,
    );
    expect(rows).toEqual([
      expect.stringMatching(new RegExp(`^\\S+ +${bad} +acct +acme/fast +loopback +503 .*–$`)),
      expect.stringMatching(
        new RegExp(`^\\S+ +${good} +acct +acme/fast +loopback +200 .*ms +\\$0\\.000045$`),
      ),
    ]);
    const json = await command('list', '--status', '2xx', '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({ id: good, state: 'settled', charged: '0.000045' });
    const csv = await command('list', '--csv');
    expect(csv.stdout.split('\n')[0]).toMatch(
      /^id,createdAt,account,key,model,provider,upstreamModel,status,/,
    );
    expect(csv.stdout).toContain(`${good},`);
    expect(await command('list', '--model', 'none')).toMatchObject({ stdout: 'no requests\n' });
  });

  it('say where to go on', async () => {
    const first = await command('list', '--limit', '1');
    const [, cursor = ''] = /there may be more: --cursor (\S+)/.exec(first.stderr) ?? [];
    const second = await command('list', '--limit', '1', '--cursor', cursor, '--json');
    expect(JSON.parse(second.stdout)).toMatchObject({ id: good });
  });

  it('show one with its attempts, without control characters of a provider', async () => {
    const { stdout } = await command('show', bad);
    expect(stdout).toMatch(/^status +503$/m);
    expect(stdout).toMatch(/^charge +voided$/m);
    expect(stdout).toMatch(/^ +1 .*loopback +upstream-model +503\b/m);
    expect(stdout).not.toContain('\u001b');
  });

  it.each([
    [['show', '0000000000000000000'], 1, 'is not in the log'],
    [['list', '--status', '9xx'], 2, '--status must be a status such as 429'],
    [['list', '--limit', '501'], 2, 'limit must be an integer from 1 to 500, got 501'],
    [['list', '--json', '--csv'], 2, '--json and --csv exclude each other'],
    [['list', '--from', 'yesterday'], 2, '--from must be a date'],
  ])('name what is wrong: %j', async (args, code, message) => {
    expect(await command(...args)).toMatchObject({ code, stderr: expect.stringContaining(message) });
  });
});
