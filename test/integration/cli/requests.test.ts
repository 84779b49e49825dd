import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, it } from 'vitest';

import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { idAt } from '../../../src/request-log/search.ts';
import { answerJson, completionBody } from '../../helpers/provider.ts';
import { QUESTION } from '../../helpers/gateway.ts';
import { startTwoTargets } from '../faults/two-targets.ts';
import { run } from './run-in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-requests-'));
const STORE = ['--store', 'sqlite:./credits.db'];
const ids: string[] = [];

beforeAll(async () => {
  const store = `sqlite:${join(folder, 'credits.db')}`;
  const targets = await startTwoTargets({ store, retries: { perTarget: 0 } });
  const { gateway, primary, fallback } = targets;
  primary.answer(answerJson(JSON.stringify({ error: { message: 'no', code: 'overloaded' } }), 503));
  fallback.answer(answerJson(completionBody()));
  for (const body of [QUESTION, { ...QUESTION, model: 'no/such' }]) {
    const response = await gateway.post(body);
    await response.text();
    ids.push(response.headers.get('x-request-id') ?? '');
  }
  await targets.close();
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

it('lists requests as a table, the newest first', async () => {
  const { code, stdout } = await run(['requests', 'list', ...STORE], { folder });
  expect(code).toBe(0);
  const [heads, newest, oldest] = stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' '));
  expect(heads).toContain('REQUEST TIME ACCOUNT MODEL PROVIDER STATUS CODE FIRST BYTE TOTAL CHARGED');
  expect(newest).toMatch(new RegExp(`^${ids[1]} 20\\S+Z acct – – 404 model_not_found –`));
  expect(oldest).toMatch(new RegExp(`^${ids[0]} 20\\S+Z acct acme/fast fallback 200`));
});

it('filters, and pages by a cursor', async () => {
  const list = (...args: string[]) => run(['requests', 'list', ...STORE, ...args], { folder });
  expect((await list('--status', '4xx')).stdout).not.toContain(ids[0]);
  expect((await list('--code', 'overloaded')).stdout).not.toContain(ids[1]);
  const first = await list('--limit', '1');
  expect(first.stdout).toContain(ids[1]);
  expect(first.stderr).toContain(`there may be more: --cursor ${ids[1]}`);
  for (const format of ['--json', '--csv']) {
    expect((await list('--limit', '1', format)).stderr).toBe(`there may be more: --cursor ${ids[1]}\n`);
  }
  expect((await list('--cursor', ids[1] ?? '')).stdout).toContain(ids[0]);
  expect((await list('--model', 'other')).stdout).toBe('no requests\n');
  expect(await list('--status', '99')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--status must be a status such as 429, or 2xx, 4xx, 5xx, got "99"'),
  });
  expect((await list('--json', '--csv')).code).toBe(2);
});

it('lists requests as JSON and CSV', async () => {
  const json = await run(['requests', 'list', '--json', '--status', '200', ...STORE], { folder });
  expect(JSON.parse(json.stdout)).toMatchObject({ id: ids[0], status: 200, state: 'settled' });
  const [heads, row] = (
    await run(['requests', 'list', '--csv', '--status', '404', ...STORE], { folder })
  ).stdout.split('\n');
  expect(heads).toBe(
    'id,createdAt,account,key,model,provider,upstreamModel,status,code,streamed,firstByteMs,durationMs,state,charged,cost,promptTokens,completionTokens,clientRequestId',
  );
  expect(row).toMatch(new RegExp(`^${ids[1]},.*,404,model_not_found,false,,[\\d.]+,refused,0.00,,,,$`));
});

it('shows a request with its attempts', async () => {
  const { code, stdout } = await run(['requests', 'show', ids[0] ?? '', ...STORE], { folder });
  expect(code).toBe(0);
  const lines = stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' ').trim());
  expect(lines).toContain(`request ${ids[0]}`);
  expect(lines).toContain('status 200');
  expect(lines.some((line) => /^1 \d+ ms \d+ ms primary .*503.*overloaded/.test(line))).toBe(true);
  expect(lines.some((line) => /^2 \d+ ms \d+ ms fallback .*200/.test(line))).toBe(true);
});

it('shows no control characters of a provider', async () => {
  const store = new SqliteStore(join(folder, 'credits.db'));
  const [row] = await store.requestLog.page({ from: '0', before: ids[1] ?? '', limit: 1 });
  const json = row?.json.replace('"stop"', String.raw`"\u001b[2Jx"`) ?? '';
  expect(json).not.toBe(row?.json);
  await store.requestLog.append([{ id: ids[0] ?? '', account: 'acct', json, replaces: true }]);
  await store.close();
  const { stdout } = await run(['requests', 'show', ids[0] ?? '', ...STORE], { folder });
  expect(stdout).toContain(String.raw`finished, \u001b[2Jx`);
  expect(stdout).not.toContain('\u001b[2J');
});

it('says that a request is not in the log', async () => {
  const shown = await run(['requests', 'show', '0000000000000000000', '--json', ...STORE], { folder });
  expect(shown.code).toBe(1);
  expect(JSON.parse(shown.stdout)).toEqual({ request: '0000000000000000000', error: 'no_request' });
});

it('forgets what a gateway logs late of an account that is deleted', async () => {
  const store = new SqliteStore(join(folder, 'credits.db'));
  await store.grant({ account: 'gone', id: 'g1', amount: 1n });
  await store.announceGateway('another host pid 1 cafe', 60_000);
  const deleting = run(['delete', 'gone', ...STORE], { folder });
  await expect.poll(() => store.balance('gone')).toBeUndefined();
  // Of a second before.
  await store.requestLog.append([{ id: idAt(Date.now() - 1000), account: 'gone', json: '{}' }]);
  expect((await deleting).stdout).toMatch(/^gone: deleted; its sums are \S+\n$/);
  expect(await store.requestLog.page({ account: 'gone', from: '0', before: '~', limit: 1 })).toEqual([]);
  await store.announceGateway('another host pid 1 cafe', 0);
  await store.close();
});

it('forgets the requests of an account that is deleted', async () => {
  expect((await run(['delete', 'acct', ...STORE], { folder })).code).toBe(0);
  expect((await run(['requests', 'list', ...STORE], { folder })).stdout).toBe('no requests\n');
});
