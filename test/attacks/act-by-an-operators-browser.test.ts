import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { endpoints } from '../../src/admin/endpoints.ts';
import { exchangeRaw } from '../helpers/raw-http.ts';
import { type AdminChange, type AttackedAdmin, COOKIE, startAttackedAdmin } from './attacked-admin.ts';

/**
 * What the attacker wants: that the browser of an operator, who is signed in by a cookie, makes a change, shows the page in a
 * frame, or keeps or sends on what it was told. In a browser: test/e2e/admin-page/console-attacks.test.ts.
 */
let admin: AttackedAdmin;
let own: string;

beforeAll(async () => {
  admin = await startAttackedAdmin();
  own = new URL(admin.door.baseURL).origin;
});

afterAll(() => admin.close());

function send({ method, path, body }: AdminChange, headers: Record<string, string>): Promise<Response> {
  const sent = method === 'DELETE' && body === undefined ? {} : { body: JSON.stringify(body) };
  return admin.door.fetch(path, { method, headers: { cookie: COOKIE, ...headers }, ...sent });
}

const JSON_TYPE = { 'content-type': 'application/json' };

/** What pages of other origins can send, or a browser lets them send where something answers their preflights. */
const FORGED: readonly (readonly [name: string, status: number, headers: Record<string, string>])[] = [
  ['a form', 415, { 'content-type': 'application/x-www-form-urlencoded' }],
  ['a form of parts', 415, { 'content-type': 'multipart/form-data; boundary=a' }],
  ['a form of text', 415, { 'content-type': 'text/plain' }],
  ['text that says that it is JSON', 415, { 'content-type': 'text/plain; application/json' }],
  ['two types', 415, { 'content-type': 'text/plain, application/json' }],
  ['a form of a browser', 403, { 'content-type': 'text/plain', origin: 'http://evil.example' }],
  ['JSON from another site', 403, { ...JSON_TYPE, 'sec-fetch-site': 'cross-site' }],
  ['JSON from another name of the site', 403, { ...JSON_TYPE, 'sec-fetch-site': 'same-site' }],
  ['JSON from no site that there is', 403, { ...JSON_TYPE, 'sec-fetch-site': '' }],
  ['JSON over plain HTTP', 403, { ...JSON_TYPE, origin: 'http://evil.example' }],
  ['JSON from a sandbox', 403, { ...JSON_TYPE, origin: 'null' }],
  ['JSON from an origin that is none', 403, { ...JSON_TYPE, origin: '' }],
  ['JSON from another port', 403, { ...JSON_TYPE, origin: 'http://127.0.0.1:1' }],
  ['JSON from a longer name', 403, { ...JSON_TYPE, origin: 'http://127.0.0.1.evil.example' }],
];

describe('a page of another origin', () => {
  it.each(FORGED)('changes nothing by %s, in any operation', async (_name, wanted, headers) => {
    const before = await admin.state();
    for (const change of admin.changes) {
      const { status } = await send(change, headers);
      expect([change.operation, status]).toEqual([change.operation, wanted]);
    }
    expect(await admin.state()).toEqual(before);
  });

  it('changes nothing by a request without a type, in any operation', async () => {
    const before = await admin.state();
    for (const change of admin.changes) {
      const body = new TextEncoder().encode(JSON.stringify(change.body));
      const headers = { cookie: COOKIE, origin: 'http://evil.example' };
      const sent = change.body === undefined ? {} : { body };
      const { status } = await admin.door.fetch(change.path, { method: change.method, headers, ...sent });
      expect([change.operation, status]).toEqual([change.operation, 403]);
    }
    expect(await admin.state()).toEqual(before);
  });

  it('changes nothing from a sandbox, where a proxy sends on no host', async () => {
    const before = await admin.state();
    const body = '{"id":"forged","amount":"1.00"}';
    const answer = await exchangeRaw(
      Number(new URL(own).port),
      `POST /admin/accounts/acct/grants HTTP/1.0\r\norigin: null\r\ncookie: ${COOKIE}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 403 /);
    expect(await admin.state()).toEqual(before);
  });

  it('changes nothing by what a link or an image sends, whatever method it names', async () => {
    const before = await admin.state();
    for (const { path, method } of admin.changes) {
      for (const query of ['', `?_method=${method}`]) {
        const headers = { cookie: COOKIE, 'x-http-method-override': method };
        await (await admin.door.fetch(path + query, { headers })).text();
      }
    }
    expect(await admin.state()).toEqual(before);
  });

  it('may send nothing, by any preflight', async () => {
    for (const { path, method } of admin.changes) {
      const { status, headers } = await admin.door.fetch(path, {
        method: 'OPTIONS',
        headers: {
          origin: 'http://evil.example',
          'access-control-request-method': method,
          'access-control-request-headers': 'content-type',
        },
      });
      expect([status, [...headers.keys()].filter((name) => name.startsWith('access-control'))]).toEqual([
        204,
        [],
      ]);
    }
  });
});

describe('every answer', () => {
  const PATHS = [
    '',
    '/',
    '/openapi.json',
    '/no/such',
    ...endpoints.map(({ path }) => path.replaceAll(/\{\w+\}/g, 'x')),
  ];

  it.each(['operator', 'stranger'])(
    'to an %s is kept by no cache, shown in no frame and told to nobody',
    async (who) => {
      for (const path of PATHS) {
        for (const [method, accept] of [
          ['GET', 'text/html'],
          ['GET', '*/*'],
          ['POST', '*/*'],
          ['PUT', '*/*'],
          ['OPTIONS', '*/*'],
        ] as const) {
          const headers = { accept, ...(who === 'operator' && { cookie: COOKIE }) };
          const response = await admin.door.fetch(path, { method, headers });
          await response.text();
          expect(Object.fromEntries(response.headers), `${method} ${path}`).toMatchObject({
            'cache-control': 'no-store',
            'content-security-policy': expect.stringMatching(/default-src 'none'.*frame-ancestors 'none'/),
            'cross-origin-resource-policy': 'same-origin',
            'referrer-policy': 'no-referrer',
            'x-content-type-options': 'nosniff',
            'x-frame-options': 'DENY',
          });
        }
      }
    },
  );

  it('is the same whatever the host is called, and never names it', async () => {
    const port = Number(new URL(own).port);
    const ask = (host: string, path: string): Promise<string> =>
      exchangeRaw(
        port,
        `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nx-forwarded-host: ${host}\r\ncookie: ${COOKIE}\r\naccept: text/html\r\nconnection: close\r\n\r\n`,
      );
    for (const path of [
      '/admin',
      '/admin/me',
      '/admin/openapi.json',
      '/admin/accounts/x',
      '/admin/no/such',
    ]) {
      const answer = await ask('evil.example"><script>', path);
      expect(answer).toMatch(/^HTTP\/1\.1 [24]/);
      expect(answer).not.toContain('evil.example');
    }
  });

  it('has no header that a name could be in', async () => {
    const name = encodeURIComponent('x\r\nset-cookie: a=b\r\n\r\n<script>');
    for (const { path, method } of endpoints) {
      const filled = path.replaceAll(/\{\w+\}/g, name);
      const response = await admin.door.fetch(`${filled}?format=csv`, {
        method,
        headers: { cookie: COOKIE },
      });
      await response.text();
      expect([path, response.headers.get('set-cookie'), response.headers.get('content-disposition')]).toEqual(
        [path, null, null],
      );
      expect(JSON.stringify([...response.headers])).not.toContain('script>');
    }
  });
});

describe('a token in a URL', () => {
  it('lets nobody in, under any name', async () => {
    for (const name of ['token', 'access_token', 'api_key', 'key', 'authorization', 'Authorization']) {
      for (const value of ['operator-token', 'Bearer operator-token']) {
        const { status } = await admin.door.fetch(
          `/accounts?${new URLSearchParams({ [name]: value }).toString()}`,
        );
        expect([name, status]).toEqual([name, 401]);
      }
    }
    const withUser = await exchangeRaw(
      Number(new URL(own).port),
      `GET http://operator-token@127.0.0.1/admin/accounts HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n`,
    );
    expect(withUser).toMatch(/^HTTP\/1\.1 401 /);
  });
});

describe('the page itself', () => {
  // The last, as it changes what the others look at.
  it('makes each change from its own origin', async () => {
    for (const change of admin.changes) {
      const before = JSON.stringify(await admin.state());
      const response = await send(change, { ...JSON_TYPE, origin: own });
      expect([change.operation, response.ok]).toEqual([change.operation, true]);
      const isSeen = !['findKey', 'createSession'].includes(change.operation);
      const isChanged = JSON.stringify(await admin.state()) !== before;
      expect([change.operation, isChanged]).toEqual([change.operation, isSeen]);
    }
  });
});
