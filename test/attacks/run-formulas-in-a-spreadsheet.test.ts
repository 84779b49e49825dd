import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, it } from 'vitest';

import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../helpers/admin.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../helpers/gateway.ts';
import { answerJson, completionBody } from '../helpers/provider.ts';
import { run } from '../integration/cli/run-in-process.ts';

/**
 * What the attacker wants: that the spreadsheet, in which an operator opens CSV, runs a formula. It stands in a name that a
 * customer or a provider chose, and begins a cell: of the CSV, or where the spreadsheet has another separator, after that.
 */
const VISIBLE = ['=1+1', '+1+1', '-1+1', '@SUM(1)', '-1;=1+1', "=cmd|'/C'!A0"];
const FORMULAS = [...VISIBLE, '\t=1+1', '\r=1+1', '\n=1+1', '＝1+1', '＋1', '－1', '＠1', 'a\t=1+1', '="1"'];

const folder = mkdtempSync(join(tmpdir(), 'ccr-formulas-'));
const store = `sqlite:${join(folder, 'credits.db')}`;
const month = new Date().toISOString().slice(0, 7);
let gateway: Gateway;
let door: AdminDoor;

beforeAll(async () => {
  gateway = await startGateway({
    store,
    dimensions: { user: true, tags: ['feature'] },
    models: { '*': { targets: ['loopback/*'], pricing: PRICING, maxOutputTokens: 1000 } },
    retries: false,
    health: false,
  });
  door = await startAdmin({ router: gateway.router });
  for (const [n, formula] of FORMULAS.entries()) {
    await gateway.router.credits.grant('acct', '1.00', { id: VISIBLE[n] ?? `g${n}` });
    await gateway.router.credits.adjust('acct', '1.00', { id: `a${n}`, reason: formula });
    const model = VISIBLE[n] ?? 'usual';
    await ask({ model, user: formula, metadata: { feature: VISIBLE[n] ?? 'usual' } });
    const error = { message: formula, code: formula };
    gateway.provider.script = answerJson(JSON.stringify({ error }), 503, { 'x-request-id': '=1+1' });
    await ask({ model });
    gateway.provider.script = answerJson(completionBody());
  }
});

afterAll(async () => {
  await door.close();
  await gateway.close();
  rmSync(folder, { recursive: true });
});

async function ask(fields: object): Promise<void> {
  const settled = gateway.nextSettled();
  const response = await gateway.post({ ...QUESTION, ...fields });
  await response.text();
  await settled;
}

const cli = async (...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await run(args, {
    folder,
    env: { ADMIN_TOKEN: OPERATOR_TOKEN, CREDITS_STORE: store },
  });
  expect([code, stderr]).toEqual([0, '']);
  return stdout;
};

async function requestsInCsv(): Promise<string> {
  const { requestLog } = gateway.router;
  await expect.poll(() => requestLog.counts().written).toBe(2 * FORMULAS.length);
  return await cli('requests', 'list', '--limit', '500', '--csv');
}

it.each<[string, readonly string[], () => Promise<string>]>([
  [
    'the statement of the admin API',
    FORMULAS,
    async () => {
      const response = await door.fetch(`/accounts/acct/statements/${month}?format=csv`, {
        headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
      });
      return await response.text();
    },
  ],
  ['credits statement', FORMULAS, () => cli('credits', 'statement', 'acct', month, '--csv')],
  ['usage by model', VISIBLE, () => cli('usage', '--by', 'model', '--csv')],
  ['usage by end user', FORMULAS, () => cli('usage', '--by', 'user', '--csv')],
  ['usage by tag', VISIBLE, () => cli('usage', '--by', 'tag:feature', '--csv')],
  ['requests list', VISIBLE, requestsInCsv],
  ['providers', [], () => cli('providers', '--url', door.baseURL, '--csv')],
  ['errors of providers', ['=1+1'], () => cli('providers', '--url', door.baseURL, '--errors', '--csv')],
])('no cell is a formula in the CSV of %s', async (_name, formulas, csvOf) => {
  const csv = await csvOf();
  const cells = cellsOf(csv);
  for (const formula of formulas) {
    const harmless = formula.replaceAll(/^(?=[^a])|(?<=[;\t])(?==)/g, "'");
    expect(cells).toContain(harmless);
  }
  const places = cells.flatMap((cell) => [cell, ...cell.split(/[;\t]/)]);
  expect(places.filter((place) => /^[=+@\t\r\n＝＋－＠]|^-(?!\d+(\.\d+)?$)/.test(place))).toEqual([]);
});

/** The cells of all lines, by RFC 4180. */
function cellsOf(csv: string): string[] {
  return [...csv.matchAll(/(?<=^|,|\n)(?:"((?:[^"]|"")*)"|([^",\r\n]*))(?=,|\r?\n|$)/g)].map(
    ([, quoted, plain = '']) => quoted?.replaceAll('""', '"') ?? plain,
  );
}
