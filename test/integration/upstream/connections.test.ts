import { lookup as systemLookup } from 'node:dns';
import * as tls from 'node:tls';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import type { ProviderOptions } from '../../../src/index.ts';
import { createAuthority } from '../../helpers/certificates.ts';
import { type Gateway, type GatewayOptions, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { type OutboundProxy, startOutboundProxy } from '../../helpers/outbound-proxy.ts';
import { answerJson, completionBody, startProvider } from '../../helpers/provider.ts';
import { startTlsProvider, type TlsProvider } from '../../helpers/tls-provider.ts';

const authority = createAuthority();
const { ca } = authority;
const certificate = authority.issue('DNS:localhost,IP:127.0.0.1');
const client = authority.issue('DNS:client');

let provider: TlsProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await startTlsProvider(certificate);
});

afterAll(async () => {
  await provider.close();
});

afterEach(async () => {
  await gateway.close();
  vi.unstubAllEnvs();
});

/** A gateway before the provider with `https:`. */
async function startWith(
  options: Partial<ProviderOptions>,
  routerOptions: GatewayOptions = {},
): Promise<void> {
  gateway = await startGateway({ ...routerOptions, provider: { baseURL: provider.baseURL, ...options } });
}

/** The status of a request, the error's code, and what the operator reads of its cause. */
async function outcome(): Promise<{ status: number; code: unknown; text: string; cause: string }> {
  const response = await gateway.post(QUESTION);
  const text = await response.text();
  const code: unknown = JSON.parse(text).error?.code;
  const cause = gateway.errors.map((error) => String(error.cause)).join('\n');
  return { status: response.status, code, text, cause };
}

async function expectUnreachable(cause: RegExp): Promise<string> {
  const result = await outcome();
  expect(result).toMatchObject({ status: 502, code: 'upstream_unreachable' });
  expect(result.cause).toMatch(cause);
  expect(gateway.settled.map(({ charged }) => Number(charged))).toEqual([0]);
  return result.text;
}

describe('tls', () => {
  it('ca: a provider with a private authority is trusted', async () => {
    await startWith({ tls: { ca } });
    expect((await outcome()).status).toBe(200);
  });

  it('ca: may be several, as bytes', async () => {
    await startWith({ tls: { ca: [Buffer.from(createAuthority().ca), Buffer.from(ca)] } });
    expect((await outcome()).status).toBe(200);
  });

  it('an unknown authority is an error whose cause only the operator sees', async () => {
    await startWith({});
    const text = await expectUnreachable(/unable to verify|self.signed/);
    expect(text).not.toContain('localhost');
  });

  it('servername: the name of the certificate, where it is not the host', async () => {
    await startWith({
      baseURL: `https://127.0.0.1:${provider.port}/v1`,
      tls: { ca, servername: 'localhost' },
    });
    expect((await outcome()).status).toBe(200);
  });

  it('servername: a certificate of another name is an error', async () => {
    await startWith({ tls: { ca, servername: 'other.example' } });
    await expectUnreachable(/other\.example/);
  });

  it('cert and key: a provider that requires a client certificate gets it', async () => {
    const strict = await startTlsProvider({
      ...certificate,
      ca,
      requestCert: true,
      rejectUnauthorized: true,
    });
    await startWith({ baseURL: strict.baseURL, tls: { ca, ...client } });
    expect((await outcome()).status).toBe(200);
    expect(strict.clients).toEqual(['test']);
    await gateway.close();
    await startWith({ baseURL: strict.baseURL, tls: { ca } });
    const text = await expectUnreachable(/certificate required|ECONNRESET|socket|closed/);
    expect(text).not.toContain(ca.split('\n')[1]);
    await strict.close();
  });

  it('a later connection resumes the session', async () => {
    await startWith({ tls: { ca } });
    const before = provider.resumed();
    expect((await outcome()).status).toBe(200);
    // More at a time than there are free connections.
    const several = await Promise.all(Array.from({ length: 4 }, outcome));
    expect(several.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(provider.resumed()).toBeGreaterThan(before);
  });
});

describe.each(['http', 'https'] as const)('an outbound proxy with %s:', (scheme) => {
  const USER = 'user:p%40ss-word';
  let proxy: OutboundProxy;

  beforeEach(async () => {
    proxy = await startOutboundProxy({
      credentials: 'user:p@ss-word',
      ...(scheme === 'https' && { certificate }),
    });
  });

  afterEach(async () => {
    await proxy.close();
  });

  const url = (user = USER): string => `${scheme}://${user}@localhost:${proxy.port}`;

  it('connects to a provider with https:, which keeps the connection', async () => {
    await startWith({ proxy: url(), tls: { ca } });
    expect((await outcome()).status).toBe(200);
    expect((await outcome()).status).toBe(200);
    expect(proxy.asked).toEqual([`localhost:${provider.port}`]);
  });

  it('of the router is for all providers, and for their lists of models', async () => {
    await startWith({ tls: { ca }, models: { pricing: 'free', contextWindow: 1000 } }, { proxy: url() });
    await gateway.router.ready();
    expect(proxy.asked).toEqual([`localhost:${provider.port}`]);
    expect(gateway.errors).toEqual([]);
    expect(await (await gateway.fetch('/models')).text()).toContain('loopback/listed');
  });

  it('is not asked where the provider has proxy: false', async () => {
    await startWith({ tls: { ca }, proxy: false }, { proxy: url() });
    expect((await outcome()).status).toBe(200);
    expect(proxy.asked).toEqual([]);
  });

  it.each([
    [407, 'user:wrong'],
    [502, USER],
  ])('that answers %i is an error without its password and its page', async (status, user) => {
    if (status !== 407) proxy.refusal = status;
    await startWith({ proxy: url(user), tls: { ca } });
    const text = await expectUnreachable(
      new RegExp(
        `${scheme}://localhost:${proxy.port} answered CONNECT localhost:${provider.port} with status ${status}`,
      ),
    );
    const told =
      text +
      gateway.errors
        .map((error) => `${error.message} ${String(error.cause)} ${JSON.stringify(error)}`)
        .join();
    expect(told).not.toMatch(/user|ss-word|wrong|secret-page/);
    expect(text).not.toContain(String(proxy.port));
  });

  it('that answers nothing is a 504, and its connection is closed with the router', async () => {
    proxy.refusal = 'silence';
    await startWith({ proxy: url(), tls: { ca } }, { timeouts: { connectMs: 200 } });
    expect(await outcome()).toMatchObject({ status: 504, code: 'upstream_connect_timeout' });
    expect(gateway.settled.map(({ charged }) => Number(charged))).toEqual([0]);
  });

  it('that tunnels to no valid certificate is an error of the provider', async () => {
    await startWith({ proxy: url(), tls: { ca, servername: 'other.example' } });
    await expectUnreachable(/other\.example/);
  });
});

describe('an outbound proxy', () => {
  it('connects to a provider with http:, too', async () => {
    const proxy = await startOutboundProxy();
    gateway = await startGateway({ proxy: `http://127.0.0.1:${proxy.port}` });
    expect((await outcome()).status).toBe(200);
    expect(proxy.asked).toEqual([new URL(gateway.provider.baseURL).host]);
    await proxy.close();
  });

  // As NODE_EXTRA_CA_CERTS does, which Node reads when it starts.
  it.runIf('setDefaultCACertificates' in tls)(
    'with https: may have a certificate that Node trusts, beside the authority of the provider',
    async () => {
      const other = createAuthority();
      const proxy = await startOutboundProxy({ certificate: other.issue('DNS:localhost') });
      const trusted = tls.getCACertificates();
      tls.setDefaultCACertificates([...trusted, other.ca]);
      await startWith({ proxy: `https://localhost:${proxy.port}`, tls: { ca } });
      expect((await outcome()).status).toBe(200);
      expect(proxy.asked).toHaveLength(1);
      tls.setDefaultCACertificates(trusted);
      await proxy.close();
    },
  );

  it('with https: may have another name than the provider', async () => {
    const proxy = await startOutboundProxy({ certificate: authority.issue('DNS:proxy.invalid') });
    await startWith({
      tls: { ca },
      proxy: `https://proxy.invalid:${proxy.port}`,
      lookup: (_host, options, callback) => {
        systemLookup('127.0.0.1', options, callback);
      },
    });
    expect((await outcome()).status).toBe(200);
    expect(proxy.asked).toEqual([`localhost:${provider.port}`]);
    await proxy.close();
  });

  it('with https: may be an IP address, for which its certificate is', async () => {
    const proxy = await startOutboundProxy({ certificate: authority.issue('IP:127.0.0.1') });
    await startWith({ tls: { ca }, proxy: `https://127.0.0.1:${proxy.port}` });
    expect((await outcome()).status).toBe(200);
    await proxy.close();
  });

  it('with https: is not trusted by a certificate for the name of the provider', async () => {
    const proxy = await startOutboundProxy({ certificate: authority.issue('DNS:localhost') });
    await startWith({ tls: { ca }, proxy: `https://user:password@127.0.0.1:${proxy.port}` });
    await expectUnreachable(/IP: 127\.0\.0\.1 is not in the cert's list/);
    expect(proxy.asked).toEqual([]);
    await proxy.close();
  });

  it('leads to a provider at an IP address, whose certificate is for that address', async () => {
    const proxy = await startOutboundProxy();
    const at = await startTlsProvider(authority.issue('IP:127.0.0.1'));
    await startWith({
      baseURL: `https://127.0.0.1:${at.port}/v1`,
      tls: { ca },
      proxy: `http://localhost:${proxy.port}`,
    });
    expect((await outcome()).status).toBe(200);
    expect(proxy.asked).toEqual([`127.0.0.1:${at.port}`]);
    await at.close();
    await proxy.close();
  });

  it('leads to no provider at an IP address whose certificate is for the name of the proxy', async () => {
    const proxy = await startOutboundProxy();
    const named = await startTlsProvider(authority.issue('DNS:localhost'));
    await startWith({
      baseURL: `https://127.0.0.1:${named.port}/v1`,
      tls: { ca },
      proxy: `http://localhost:${proxy.port}`,
    });
    await expectUnreachable(/IP: 127\.0\.0\.1 is not in the cert's list/);
    await named.close();
    await proxy.close();
  });

  it('that can not be reached is an error that names it to the operator', async () => {
    // No other test listens there, as on a port that was free a moment ago.
    await startWith({ proxy: 'http://user:password@127.0.0.1:1', tls: { ca } });
    await expectUnreachable(/outbound proxy http:\/\/127.0.0.1:1 .*ECONNREFUSED/);
  });

  it('of the environment is read where that is asked for, at each connection', async () => {
    const proxy = await startOutboundProxy();
    const url = `http://127.0.0.1:${proxy.port}`;
    for (const name of ['HTTPS_PROXY', 'https_proxy', 'NO_PROXY', 'no_proxy']) vi.stubEnv(name, '');
    await startWith({ tls: { ca } }, { proxy: 'environment' });
    vi.stubEnv('HTTPS_PROXY', url);
    expect((await outcome()).status).toBe(200);
    expect(proxy.asked).toHaveLength(1);
    await gateway.close();
    vi.stubEnv('NO_PROXY', 'example.com,localhost');
    await startWith({ tls: { ca } }, { proxy: 'environment' });
    expect((await outcome()).status).toBe(200);
    expect(proxy.asked).toHaveLength(1);
    await gateway.close();
    vi.stubEnv('NO_PROXY', '');
    await startWith({ tls: { ca } });
    expect((await outcome()).status).toBe(200);
    expect(proxy.asked).toHaveLength(1);
    await proxy.close();
  });

  it('of the environment that is no URL is an error without its value', async () => {
    vi.stubEnv('HTTPS_PROXY', 'socks5://user:password@127.0.0.1:1');
    vi.stubEnv('https_proxy', '');
    vi.stubEnv('NO_PROXY', '');
    vi.stubEnv('no_proxy', '');
    await startWith({ tls: { ca }, proxy: 'environment' });
    const text = await expectUnreachable(/The URL in HTTPS_PROXY or ALL_PROXY must begin/);
    expect(text + gateway.errors.map((error) => String(error.cause)).join()).not.toContain('password');
  });
});

describe('localAddress and lookup', () => {
  it('connects from the address', async () => {
    gateway = await startGateway({ provider: { localAddress: '127.0.0.2' } });
    const from: (string | undefined)[] = [];
    const { script } = gateway.provider;
    gateway.provider.script = (response, request) => {
      from.push(response.socket?.remoteAddress);
      return script(response, request);
    };
    expect((await outcome()).status).toBe(200);
    expect(from).toEqual(['127.0.0.2']);
  });

  it('resolves by the function', async () => {
    const asked: string[] = [];
    await startWith({
      baseURL: `https://provider.invalid:${provider.port}/v1`,
      tls: { ca, servername: 'localhost' },
      lookup: (host, options, callback) => {
        asked.push(host);
        systemLookup('127.0.0.1', options, callback);
      },
    });
    expect((await outcome()).status).toBe(200);
    expect(asked).toEqual(['provider.invalid']);
  });

  it.each([
    ['127.0.0.1', 200],
    // From the loopback address, the connection fails while it is being made.
    ['255.255.255.255', 502],
  ])('may call back at once, with %s', async (address, status) => {
    await startWith(
      {
        tls: { ca },
        localAddress: '127.0.0.1',
        lookup: (_host, options, callback) => {
          if (options.all) callback(null, [{ address, family: 4 }]);
          else callback(null, address, 4);
        },
      },
      { retries: false },
    );
    expect((await outcome()).status).toBe(status);
  });

  it('is an internal error if the function throws, and costs no connection', async () => {
    let isBroken = true;
    await startWith(
      {
        tls: { ca },
        maxConnections: 1,
        lookup: (host, options, callback) => {
          if (isBroken) throw new Error('no resolver');
          systemLookup(host, options, callback);
        },
      },
      { retries: false, timeouts: { connectMs: 2000 } },
    );
    expect(await outcome()).toMatchObject({ status: 500, code: 'internal_error' });
    expect(gateway.settled.map(({ charged }) => Number(charged))).toEqual([0]);
    isBroken = false;
    expect((await outcome()).status).toBe(200);
  });

  it('fails a request that waited for a connection if the function throws then, and no later one', async () => {
    const answer = answerJson(completionBody(), 200, { connection: 'close' });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const plain = await startProvider(async (response, request) => {
      await released;
      await answer(response, request);
    });
    let isBroken = false;
    await startWith(
      {
        baseURL: `http://provider.invalid:${new URL(plain.baseURL).port}/v1`,
        maxConnections: 1,
        lookup: (_host, options, callback) => {
          if (isBroken) throw new Error('no resolver');
          systemLookup('127.0.0.1', options, callback);
        },
      },
      { retries: false, timeouts: { connectMs: 5000 } },
    );
    const first = outcome();
    await plain.next();
    const waiting = outcome();
    await expect.poll(() => gateway.router.requests().length).toBe(2);
    isBroken = true;
    release();
    expect((await first).status).toBe(200);
    expect(await waiting).toMatchObject({ status: 500, code: 'internal_error' });
    isBroken = false;
    expect((await outcome()).status).toBe(200);
    await plain.close();
  });
});
