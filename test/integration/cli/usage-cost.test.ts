import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, expect, it } from 'vitest';

import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { run } from './run-in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-cost-'));

afterAll(() => {
  rmSync(folder, { recursive: true });
});

it('shows no cost where none is known, not zero', async () => {
  const store = new SqliteStore(join(folder, 'credits.db'));
  const account = 'acme';
  const { now } = await store.grant({ account, id: 'g1', amount: 1_000_000_000n });
  const { cost: _, ...unknown } = USAGE;
  const charge = { account, amount: 500_000_000n, key: 'k1', force: true };
  await store.settle({
    ...charge,
    requestId: requestId(1, now),
    model: 'known',
    usage: { ...USAGE, cost: 250_000_000n },
  });
  await store.settle({ ...charge, requestId: requestId(2, now), model: 'unknown', usage: unknown });
  await store.close();
  const { stdout } = await run(['usage', '--by', 'model', '--store', 'sqlite:./credits.db'], { folder });
  expect(stdout).toMatch(/^known .* \$0\.50 +\$0\.25\n/m);
  expect(stdout).toMatch(/^unknown .* \$0\.50 +–\n/m);
  expect(stdout).toMatch(/^TOTAL .* \$1\.00 +\$0\.25\n/m);
});

it('groups by end user and tag, with the day and account', async () => {
  const store = new SqliteStore(join(folder, 'users.db'));
  const account = 'acme';
  const { now } = await store.grant({ account, id: 'g1', amount: 2_000_000_000n });
  const charge = { account, key: 'k1', model: 'm', usage: USAGE, force: true };
  const uses = [{ user: 'ann', 'tag:feature': 'search' }, { user: 'ben' }, undefined];
  for (const [n, dimensions] of uses.entries()) {
    await store.settle({ ...charge, requestId: requestId(n, now), amount: 500_000_000n, dimensions });
  }
  await store.close();
  const usage = (...by: string[]) =>
    run(['usage', '--store', 'sqlite:./users.db', '--by', ...by], { folder });
  const { stdout } = await usage('user');
  expect(stdout.replaceAll(/ +/g, ' ')).toContain('USER REQUESTS');
  expect(stdout).toMatch(/^ann +1 .* \$0\.50/m);
  expect(stdout).toMatch(/^ben +1 .* \$0\.50/m);
  expect(stdout).toMatch(/^TOTAL +3 .* \$1\.50/m);
  const csv = (await usage('account,tag:feature', '--csv')).stdout;
  expect(csv).toContain('account,tag:feature,requests');
  expect(csv).toMatch(/^acme,,2,/m);
  expect(csv).toMatch(/^acme,search,1,/m);
  expect((await usage('user', '--json')).stdout).toContain('"user":"ann"');
  for (const by of ['tag:', 'tag:a b']) {
    expect((await usage(by)).stderr).toContain(`--by: a tag is tag:NAME, got "${by}"`);
  }
  expect((await usage('user,model')).stderr).toContain(
    '--by: user goes with day and account alone, not with model',
  );
});
