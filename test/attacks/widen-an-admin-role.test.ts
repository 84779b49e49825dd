import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import type { Permission } from '../../src/admin.ts';
import { permissionFor } from '../../src/json-api/endpoint.ts';
import { endpoints } from '../../src/admin/endpoints.ts';
import { PERMISSIONS } from '../../src/admin/operator.ts';
import { type AdminDoor, startAdmin } from '../helpers/admin.ts';
import { startAttackedAdmin } from './attacked-admin.ts';

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

describe('a role without a permission, past the console', () => {
  it.each(PERMISSIONS)(
    'can change nothing that needs %s, and stands in the audit with each try',
    async (lacked) => {
      const may: readonly Permission[] = PERMISSIONS.filter((each) => each !== lacked);
      const admin = await startAttackedAdmin(() => ({ name: 'clerk', may }));
      onTestFinished(() => admin.close());
      const needing = new Map(endpoints.map((each) => [each.operation, permissionFor(each)]));
      const tried = admin.changes.filter(({ operation }) => needing.get(operation) === lacked);
      expect(tried.length).toBeGreaterThan(0);
      const before = await admin.state();
      const credentials = { authorization: 'Bearer clerk' };
      for (const { operation, method, path, body } of tried) {
        const refused = await admin.door.ask(method, path, body, credentials);
        expect([operation, refused.status, refused.body.error.code]).toEqual([
          operation,
          403,
          'not_permitted',
        ]);
      }
      expect(await admin.state()).toEqual(before);
      expect(admin.door.audits).toMatchObject(
        tried.map(({ operation }) => ({
          operator: 'clerk',
          action: endpoints.find((each) => each.operation === operation)?.change?.action,
          outcome: 'refused',
          status: 403,
          code: 'not_permitted',
        })),
      );
      expect(admin.door.audits).toHaveLength(tried.length);
    },
  );

  it('reads nothing without the permission to read, by any operation', async () => {
    const admin = await startAttackedAdmin(() => ({
      name: 'clerk',
      may: PERMISSIONS.filter((each) => each !== 'read'),
    }));
    onTestFinished(() => admin.close());
    const [key] = (await admin.gateway.router.keys.list('acct')).map(({ id }) => id);
    const ids: Record<string, string> = { account: 'acct', id: key ?? '', month: '2026-11', end_user: 'ann' };
    for (const { path } of endpoints.filter(
      (each) => each.method === 'GET' && permissionFor(each) === 'read',
    )) {
      for (const method of ['GET', 'HEAD']) {
        const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? 'x');
        const { status } = await admin.door.ask(method, filled, undefined, { authorization: 'Bearer clerk' });
        expect([path, method, status]).toEqual([path, method, 403]);
      }
    }
  });
});
