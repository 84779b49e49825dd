import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { endpoints } from '../../../src/admin/endpoints.ts';
import { MemoryStore } from '../../../src/index.ts';
import { rowOf } from '../../../src/request-log/logged-request.ts';
import { requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const page = read('docs/admin.md');

/** Of each operation, its heading and its command. */
const sections = [...page.matchAll(/^### ((?:GET|POST|PATCH|DELETE) \S+)\n(.*?)(?=^##)/gms)].map(
  ([, heading = '', text = '']) => ({ heading, commands: /^```sh\n(.*?)^```/ms.exec(text)?.[1] ?? '' }),
);

const REQUEST = requestId(1, Date.now());

/** A request of the account of the page's commands. */
async function chargeRequest(store: MemoryStore): Promise<void> {
  const request = { account: 'acme', key: 'label', requestId: REQUEST };
  await store.grant({ account: 'acme', id: 'opening', amount: 10_000_000_000n });
  await store.settle({ ...request, amount: 20_000_000n, model: 'some/model', usage: USAGE, force: true });
  await store.requestLog.append([
    rowOf(
      {
        requestId: REQUEST,
        startedAt: Date.now(),
        endpoint: 'completions',
        method: 'POST',
        path: '/v1/chat/completions',
        status: 200,
        account: 'acme',
        key: 'label',
        stream: false,
        attempts: [],
        durationMs: 1,
        admitted: true,
      },
      undefined,
      false,
    ),
  ]);
}

describe('the page of the admin API', () => {
  it('has every operation, and no other', () => {
    const served = endpoints.map(({ method, path }) => `${method} ${path}`);
    expect(sections.map(({ heading }) => heading).toSorted()).toEqual(
      [...served, 'GET /openapi.json'].toSorted(),
    );
  });

  it('has a command for each that runs as it stands there', { timeout: 30_000 }, async () => {
    const store = new MemoryStore();
    const door = await startAdmin({
      store,
      providers: { groq: { apiKey: 'sk-groq' } },
      models: { 'meta/llama': { targets: ['groq/llama'], strategy: 'weighted', pricing: 'free' } },
    });
    await chargeRequest(store);
    const env: NodeJS.ProcessEnv = {
      REQUEST,
      PATH: process.env['PATH'],
      ADMIN: door.baseURL,
      TOKEN: OPERATOR_TOKEN,
    };
    for (const { heading, commands } of sections) {
      const command = commands.replace(/^curl/m, 'curl -sS --fail-with-body');
      const { stdout } = await promisify(execFile)('sh', ['-c', command], { env }).catch(
        (failed: { stdout: string }) => {
          throw new Error(`${heading}: ${failed.stdout}`);
        },
      );
      const { key, id, session }: { key?: unknown; id?: string; session?: string } = JSON.parse(stdout);
      if (session !== undefined) env['SESSION'] = session;
      if (key !== undefined) env['KEY'] = id;
    }
    expect(env['KEY']).toBeDefined();
    const done = door.audits.map(({ action, outcome }) => `${action} ${outcome}`);
    const actions = endpoints.flatMap(({ change }) => (change ? [change.action] : []));
    expect(new Set(done.map((line) => line.split(' ')[0]))).toEqual(new Set(actions));
    expect(done.filter((line) => !/ (done|repeated)$/.test(line))).toEqual([]);
    await door.close();
  });

  it('names every code that its errors can have', () => {
    const source = read('src/json-api/errors.ts');
    const declared = [...source.matchAll(/readonly code\b(?: = |:)([^;]*);/g)]
      .flatMap(([, codes = '']) => [...codes.matchAll(/'([a-z_]+)'/g)])
      .map(([, code]) => code);
    expect(declared.length).toBeGreaterThan(12);
    const table = page.slice(page.indexOf('## Errors'));
    for (const code of declared) expect(table).toContain(`\`${code}\``);
  });

  it('says what each option is', () => {
    const options = [
      ['src/admin/options.ts', 'interface AdminRouterOptions', 'type Authorized'],
      ['src/json-api/api-options.ts', 'interface ApiOptions', 'checkApiOptions'],
    ].flatMap(([file = '', from = '', to = '']) => {
      const source = read(file);
      const body = source.slice(source.indexOf(from), source.indexOf(to));
      return [...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, name]) => name);
    });
    const rows = [...page.matchAll(/^\| `(\w+)` +\|/gm)].map(([, name]) => name);
    expect(rows).toEqual(expect.arrayContaining(options));
    expect(options).toHaveLength(4);
  });
});
