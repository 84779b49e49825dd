import { expect } from 'vitest';

import type { Operator } from '../../src/admin.ts';
import { endpoints } from '../../src/admin/endpoints.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../helpers/admin.ts';
import { FAST_MODEL, type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';

/** One change of the admin API, as a call that is made where nothing refuses it. */
export interface AdminChange {
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly body: object | undefined;
}

/** An admin API before a gateway in which each change has something to change. */
export interface AttackedAdmin {
  readonly gateway: Gateway;
  readonly door: AdminDoor;
  /** All that there are. */
  readonly changes: readonly AdminChange[];
  /** What the operator sees of accounts, keys, credits and providers. */
  state(): Promise<unknown>;
  close(): Promise<void>;
}

/** Of an operator who is signed in by a cookie, as browsers send it from anywhere. */
export const COOKIE = 'session=of-the-operator';

/** @param clerk - who has the token `clerk`; nobody, by default */
export async function startAttackedAdmin(
  clerk: () => Operator | undefined = () => undefined,
): Promise<AttackedAdmin> {
  const gateway = await startGateway({
    sessions: { secret: 'a secret of the tests, of 32 characters or more' },
    models: { 'acme/fast': { ...FAST_MODEL, strategy: 'weighted' } },
  });
  const door = await startAdmin({
    router: gateway.router,
    authorize: ({ headers: { authorization, cookie } }) => {
      if (authorization === 'Bearer clerk') return clerk();
      return cookie === COOKIE || authorization === `Bearer ${OPERATOR_TOKEN}` ? 'ada' : undefined;
    },
  });
  return {
    gateway,
    door,
    changes: await changesOf(gateway),
    state: () => stateOf(door),
    close: async () => {
      await door.close();
      await gateway.close();
    },
  };
}

async function changesOf(gateway: Gateway): Promise<AdminChange[]> {
  const { router } = gateway;
  const response = await gateway.post(QUESTION);
  await response.text();
  await router.credits.grant('old', '1.00', { id: 'g0' });
  await router.accounts.freeze('old');
  await router.credits.allow('acct', { id: 'ended', amount: '1.00', per: 'month' });
  const secrets: Record<string, string> = {};
  for (const id of ['updated', 'revoked', 'paused', 'resumed', 'rotated', 'leaked']) {
    secrets[id] = (await router.keys.create({ account: 'acct', id })).key;
  }
  await router.keys.pause('acct', 'resumed');
  const { session } = router.sessions.create({
    account: 'acct',
    maxSpend: '1.00',
    ttlMs: 60_000,
    origins: ['https://chat.example.com'],
  });
  await router.providers.eject('loopback', { by: 'bob' });
  const bodies: Record<string, readonly [params: Readonly<Record<string, string>>, body?: object]> = {
    updateAccount: [{}, { frozen: true }],
    deleteAccount: [{ account: 'old' }],
    createGrant: [{}, { id: 'g1', amount: '100.00' }],
    createAdjustment: [{}, { id: 'a1', delta: '50.00', reason: 'for me' }],
    setAllowance: [{ allowance: 'mine' }, { amount: '100.00', per: 'month' }],
    endAllowance: [{ allowance: 'ended' }],
    refundRequest: [{ request: response.headers.get('x-request-id') ?? '' }, { reason: 'for me' }],
    createKey: [{}, { id: 'mine' }],
    updateKey: [{ id: 'updated' }, { name: 'mine' }],
    revokeKey: [{ id: 'revoked' }],
    pauseKey: [{ id: 'paused' }, {}],
    resumeKey: [{ id: 'resumed' }, {}],
    findKey: [{}, { key: secrets['leaked'] }],
    revokeFoundKey: [{}, { key: secrets['leaked'] }],
    rotateKey: [{ id: 'rotated' }, { overlap_ms: 60_000 }],
    createSession: [{}, { max_spend: '5.00', ttl_ms: 60_000, origins: ['https://evil.example'] }],
    revokeSession: [{}, { session }],
    ejectProvider: [{ name: 'loopback' }, { reason: 'for me' }],
    readmitProvider: [{ name: 'loopback' }, {}],
    setWeight: [{ name: 'loopback' }, { model: 'acme/fast', weight: 7 }],
  };
  const changing = endpoints.filter(({ change }) => change !== undefined);
  expect(Object.keys(bodies).toSorted()).toEqual(changing.map(({ operation }) => operation).toSorted());
  return changing.map(({ operation, method, path }) => {
    const [params, body] = bodies[operation]!;
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => params[name] ?? 'acct');
    return { operation, method, path: filled, body };
  });
}

async function stateOf(door: AdminDoor): Promise<unknown> {
  const parts = ['', '/acct', '/acct/keys', '/acct/allowances', '/acct/journal'];
  const answers = await Promise.all(
    parts.map(async (part) => (await door.ask('GET', `/accounts${part}`)).body),
  );
  const { body } = await door.ask('GET', '/providers');
  const providers = body.data.map(({ name, state, ejection }: Record<string, unknown>) => [
    name,
    state,
    ejection,
  ]);
  const models = (await door.ask('GET', '/models')).body.data;
  return { answers, providers, models };
}
