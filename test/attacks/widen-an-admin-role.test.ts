import { afterEach, beforeEach, expect, it } from 'vitest';

import { type AdminDoor, startAdmin } from '../helpers/admin.ts';

/** An operator who may do what there is with any account but `vault`, as a host would write it. */
let door: AdminDoor;
let shown: string[];

beforeEach(async () => {
  shown = [];
  door = await startAdmin({
    authorize: ({ path }) => {
      shown.push(path);
      return path.startsWith('/accounts/vault') ? undefined : 'clerk';
    },
  });
  await door.router.credits.grant('vault', '5.00', { id: 'g0' });
});

afterEach(() => door.close());

const grant = { id: 'g1', amount: '100.00' };

it.each([
  '/accounts/vault/grants',
  '/accounts/vault/grants/',
  '//accounts/vault/grants',
  '/accounts/nobody/accounts/vault/grants',
  '/accounts/%76ault/grants',
  '/accounts/%76%61%75%6c%74/grants',
  '/accounts/vaul%74/grants',
  '/accounts/vault%2Fgrants',
  '/accounts/x/../vault/grants',
  '/%61ccounts/vault/grants',
])('an account is not reached by another spelling of its path: %s', async (path) => {
  const { status } = await door.ask('POST', path, grant);
  expect(status).toBeGreaterThanOrEqual(400);
  expect(status).toBeLessThan(500);
  const { accounts } = await door.router.accounts.list();
  expect(accounts.map(({ id, granted }) => [id, granted])).toEqual([['vault', '5.00']]);
});

it.each([
  ['%2576ault', '%76ault'],
  ['x%2F..%2Fvault', 'x/../vault'],
  ['org%2Fvault', 'org/vault'],
])('an ID with a slash or a percent sign is one segment, and stands for itself: %s', async (segment, id) => {
  const { status } = await door.ask('POST', `/accounts/${segment}/grants`, grant);
  expect(status).toBe(201);
  expect(shown).toEqual([`/accounts/${segment}/grants`]);
  const { accounts } = await door.router.accounts.list();
  expect(new Map(accounts.map((account) => [account.id, account.granted]))).toEqual(
    new Map([
      ['vault', '5.00'],
      [id, '100.00'],
    ]),
  );
});

it.each([
  '/accounts/%76ault',
  '/accounts/acm%65/keys',
  '/accounts/a%5Fb',
  '/accounts/%zz',
  '/accounts/%ff',
  '/accounts/a%2fb',
])('what is percent-encoded beyond need, or wrongly, stands for nothing: %s', async (path) => {
  const { status, body } = await door.ask('GET', path);
  expect([status, body.error.code]).toEqual([404, 'unknown_endpoint']);
  expect(shown).toEqual([`/admin${path}`]);
});

it('who is judged is shown what is served, parameters decoded', async () => {
  await door.ask('GET', '/accounts/a%40b/keys/');
  await door.ask('GET', '/accounts/a%2Fb');
  expect(shown).toEqual(['/accounts/a@b/keys', '/accounts/a%2Fb']);
});
