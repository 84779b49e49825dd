import { describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { createAuthority } from '../../helpers/certificates.ts';

const authority = createAuthority();
const { cert, key } = authority.issue('DNS:client');
const other = authority.issue('DNS:other');

function create(provider: Record<string, unknown>, router: Record<string, unknown> = {}): () => unknown {
  return () =>
    createChatCompletionsRouter({
      store: 'memory:',
      providers: { local: { baseURL: 'https://127.0.0.1:1/v1', ...provider } },
      models: { m: { targets: ['local/m'], pricing: 'free' } },
      ...router,
    });
}

function messageOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError);
    return (error as Error).message;
  }
  throw new Error('nothing was thrown');
}

const OPTION = String.raw`^providers\["local"\]\.`;
const PEM = 'MIIsecretsecret';

describe('an option of a connection that can only be a mistake', () => {
  it.each([
    [
      'a proxy without a scheme',
      { proxy: 'user:secret@proxy:3128' },
      /proxy must be 'environment', false, or a URL/,
    ],
    ['a SOCKS proxy', { proxy: 'socks5://user:secret@proxy:1080' }, /proxy must be 'environment'/],
    ['a proxy with a path', { proxy: 'http://user:secret@proxy:1/path' }, /proxy must be 'environment'/],
    ['proxy: true', { proxy: true }, /proxy must be 'environment'/],
    ['tls as text', { tls: PEM }, /tls must be an object$/],
    ['an unknown key of tls', { tls: { crt: PEM } }, /tls has an unknown key "crt"/],
    ['ca that is no PEM', { tls: { ca: PEM } }, /tls\.ca must be PEM text with BEGIN CERTIFICATE/],
    ['a list with something else', { tls: { ca: [authority.ca, 5] } }, /tls\.ca must be PEM text/],
    [
      'a broken certificate',
      { tls: { ca: `-----BEGIN CERTIFICATE-----\n${PEM}\n-----END CERTIFICATE-----\n` } },
      /tls\.ca can't be used/,
    ],
    ['cert without key', { tls: { cert } }, /tls\.key is missing/],
    ['key without cert', { tls: { key } }, /tls\.cert is missing/],
    [
      'key and cert exchanged',
      { tls: { cert: key, key: cert } },
      /tls\.cert must be PEM text with BEGIN CERTIFICATE/,
    ],
    [
      'the key of another certificate',
      { tls: { cert, key: other.key } },
      /tls\.key can't be used: key values mismatch/,
    ],
    ['an empty servername', { tls: { servername: '' } }, /tls\.servername must be a non-empty string/],
    ['tls for http:', { baseURL: 'http://127.0.0.1:1/v1', tls: {} }, /tls needs a base URL with https:/],
    [
      'a name as localAddress',
      { localAddress: 'localhost' },
      /localAddress must be an IP address, got "localhost"/,
    ],
    ['lookup', { lookup: '127.0.0.1' }, /lookup must be a function/],
    ['maxConnections', { maxConnections: 0 }, /maxConnections must be a positive integer, got 0/],
    ['keepWarm', { keepWarm: -1 }, /keepWarm must be an integer of 0 or more, got -1/],
    [
      'keepWarm beyond maxConnections',
      { keepWarm: 3, maxConnections: 2 },
      /keepWarm must be .* up to maxConnections \(2\), got 3/,
    ],
  ] as const)('%s', (_name, provider, message) => {
    const text = messageOf(create(provider));
    expect(text).toMatch(new RegExp(OPTION + message.source));
    expect(text).not.toContain('secret');
  });

  it('the proxy of the router', () => {
    expect(messageOf(create({}, { proxy: 'proxy:3128' }))).toMatch(
      /^proxy must be 'environment', false, or a URL/,
    );
  });

  it('none of them is a mistake', () => {
    const connection = {
      proxy: 'https://user:p%40ss@proxy.example:3129',
      tls: { ca: [authority.ca], cert, key, servername: 'provider.example' },
      localAddress: '127.0.0.2',
      lookup: () => {},
      maxConnections: 4,
      keepWarm: 4,
    };
    expect(create(connection, { proxy: 'environment' })).not.toThrow();
    expect(create({ proxy: false, maxConnections: Infinity })).not.toThrow();
  });
});
