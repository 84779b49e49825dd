import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Operator, Permission } from '../../../src/admin.ts';
import { permissionFor } from '../../../src/json-api/endpoint.ts';
import { endpoints } from '../../../src/admin/endpoints.ts';
import { PERMISSIONS } from '../../../src/admin/operator.ts';
import { type AdminDoor, startAdmin } from '../../helpers/admin.ts';

describe('an operator with some permissions', () => {
  let door: AdminDoor;
  let operator: unknown;

  beforeEach(async () => {
    door = await startAdmin({ authorize: () => operator as Operator });
    await door.router.credits.grant('acme', '5.00', { id: 'g0' });
  });

  afterEach(() => door.close());

  const only = (...may: Permission[]): Operator => ({ name: 'bob', may });
  const pathOf = (path: string): string => path.replaceAll(/\{\w+\}/g, 'x');

  it.each(endpoints.map((each) => [each.operation, each] as const))(
    'is refused %s without its permission, and nothing else',
    async (_operation, endpoint) => {
      const needed = permissionFor(endpoint);
      const ask = (may: readonly Permission[]) => {
        operator = { name: 'bob', may };
        return door.ask(endpoint.method, pathOf(endpoint.path), endpoint.change && {});
      };
      const without = await ask(PERMISSIONS.filter((each) => each !== needed));
      expect([without.status === 403, without.body.error?.code === 'not_permitted']).toEqual(
        needed === undefined ? [false, false] : [true, true],
      );
      expect((await ask(needed === undefined ? [] : [needed])).status).not.toBe(403);
    },
  );

  it('learns what it may do, and no more', async () => {
    operator = only('keys', 'read', 'keys');
    expect((await door.ask('GET', '/me')).body).toEqual({ name: 'bob', may: ['read', 'keys'] });
    operator = only();
    expect((await door.ask('GET', '/me')).body).toEqual({ name: 'bob', may: [] });
    operator = 'ada';
    expect((await door.ask('GET', '/me')).body).toEqual({
      name: 'ada',
      may: ['read', 'keys', 'credits', 'accounts', 'providers'],
    });
  });

  it('is told what it lacks and has, and stands in the audit with what it tried', async () => {
    operator = only('read', 'keys');
    const { status, body } = await door.ask('POST', '/accounts/acme/grants', { id: 'g1', amount: '1.00' });
    expect(status).toBe(403);
    expect(body.error).toMatchObject({
      code: 'not_permitted',
      type: 'permission_error',
      message: 'bob may not do this: it needs the permission credits. Permissions: read, keys.',
    });
    expect(await door.router.accounts.get('acme')).toMatchObject({ granted: '5.00' });
    expect(door.audits).toMatchObject([
      {
        action: 'grants.create',
        operator: 'bob',
        account: 'acme',
        outcome: 'refused',
        status: 403,
        code: 'not_permitted',
      },
    ]);
  });

  it('gives nobody credit by the way of accounts: a credit limit needs the permission credits too', async () => {
    operator = only('read', 'accounts');
    const refused = await door.ask('PATCH', '/accounts/acme', { frozen: true, credit_limit: '100.00' });
    expect([refused.status, refused.body.error.code]).toEqual([403, 'not_permitted']);
    expect(await door.router.accounts.get('acme')).toMatchObject({ frozen: false, creditLimit: '0.00' });
    expect((await door.ask('PATCH', '/accounts/acme', { frozen: true })).status).toBe(200);
    operator = only('accounts', 'credits');
    expect((await door.ask('PATCH', '/accounts/acme', { credit_limit: '1.00' })).status).toBe(200);
  });

  it.each([
    [{ name: 'bob' }, 'its may is undefined'],
    [{ name: 'bob', may: 'read' }, 'its may is string'],
    [{ name: 'bob', may: ['write'] }, 'its may has "write"'],
    [{ name: 'bob', may: [['read']] }, 'its may has ["read"]'],
    [{ name: '', may: [] }, 'got a name of 0 characters'],
    [{ may: ['read'] }, 'got a name that is undefined'],
  ])('is nobody where authorize returns %j', async (answer, message) => {
    operator = answer;
    expect((await door.ask('GET', '/accounts')).status).toBe(500);
    expect(String(door.errors[0]?.cause)).toContain(message);
  });
});
