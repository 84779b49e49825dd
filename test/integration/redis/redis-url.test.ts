import { execFileSync } from 'node:child_process';

import { describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { parseRedisUrl, withoutPassword } from '../../../src/ledger/stores/redis/redis-url.ts';

const NOTHING_MORE = { tls: false, db: 0, primary: '', keyPrefix: '' };

describe('a store URL in a message', () => {
  it.each([
    ['redis://ada:secret@db:6379/3', 'redis://ada:***@db:6379/3'],
    ['rediss://:secret@db', 'rediss://:***@db'],
    ['redis+sentinel://ada:se:cr@et@a,b/main/1?prefix=x', 'redis+sentinel://ada:***@a,b/main/1?***'],
    ['redis://secret@db', 'redis://***@db'],
    ['redis://secret:@db', 'redis://***@db'],
    ['redis:secret:more@db', 'redis:***@db'],
    ['secret:more@db', '***@db'],
    ['redis://db/1', 'redis://db/1'],
  ])('shows its user and no password: %s', (url, shown) => {
    expect(withoutPassword(url)).toBe(shown);
  });
});

describe('a store URL', () => {
  it.each<[string, object]>([
    ['redis://localhost', { shape: 'single', hosts: [{ host: 'localhost', port: 6379 }] }],
    ['redis://db:7000/', { shape: 'single', hosts: [{ host: 'db', port: 7000 }] }],
    ['redis://db/5', { shape: 'single', hosts: [{ host: 'db', port: 6379 }], db: 5 }],
    ['rediss://db', { shape: 'single', hosts: [{ host: 'db', port: 6379 }], tls: true }],
    ['redis://[::1]:7000', { shape: 'single', hosts: [{ host: '::1', port: 7000 }] }],
    [
      'redis://ada:p%40ss%2Fword@db',
      { shape: 'single', hosts: [{ host: 'db', port: 6379 }], username: 'ada', password: 'p@ss/word' },
    ],
    ['redis://:a:b@db', { shape: 'single', hosts: [{ host: 'db', port: 6379 }], password: 'a:b' }],
    ['redis://db?prefix=app%3A', { shape: 'single', hosts: [{ host: 'db', port: 6379 }], keyPrefix: 'app:' }],
    [
      'redis+cluster://a:7000,b:7001,c',
      {
        shape: 'cluster',
        hosts: [
          { host: 'a', port: 7000 },
          { host: 'b', port: 7001 },
          { host: 'c', port: 6379 },
        ],
      },
    ],
    [
      'rediss+cluster://:secret@a/0?prefix=x',
      {
        shape: 'cluster',
        hosts: [{ host: 'a', port: 6379 }],
        tls: true,
        password: 'secret',
        keyPrefix: 'x',
      },
    ],
    [
      'redis+sentinel://a,b:7001/main/2',
      {
        shape: 'sentinel',
        hosts: [
          { host: 'a', port: 26_379 },
          { host: 'b', port: 7001 },
        ],
        primary: 'main',
        db: 2,
      },
    ],
    [
      'rediss+sentinel://a/main',
      { shape: 'sentinel', hosts: [{ host: 'a', port: 26_379 }], primary: 'main', tls: true },
    ],
  ])('%s is understood', (url, expected) => {
    expect(parseRedisUrl(url)).toEqual({ ...NOTHING_MORE, ...expected });
  });

  it.each([
    ['redis:', /must be redis:\/\/HOST/],
    ['redis:/db', /must be redis:\/\/HOST/],
    ['redis+ssl://db', /must be redis:\/\/HOST/],
    ['redis://', /must be redis:\/\/HOST/],
    ['redis://a,b', /must name one host/],
    ['redis://db:port', /must name hosts as HOST or HOST:PORT/],
    ['redis://db:0', /must name hosts as HOST or HOST:PORT/],
    ['redis://db:70000', /must name hosts as HOST or HOST:PORT/],
    ['redis+cluster://a,,b', /must name hosts as HOST or HOST:PORT/],
    ['redis://db/first', /must end with a database number/],
    ['redis://db/1/2', /must end with a database number/],
    ['redis+cluster://a/1', /must use database 0 in a cluster/],
    ['redis+sentinel://a', /must name the primary/],
    ['redis+sentinel://a/', /must name the primary/],
    ['redis://user@db', /must give USER:PASSWORD/],
    ['redis://:100%@db', /must percent-encode its password/],
    ['redis://db?prefix={app}', /must not contain braces in its prefix/],
    ['redis://db?db=3', /supports only the option \?prefix=/],
    ['redis://db?prefix=a&prefix=b', /supports only the option \?prefix=/],
  ])('%s is refused when the router is made', (store, message) => {
    const create = () => createChatCompletionsRouter({ store, providers: {}, models: {} });
    expect(create).toThrow(TypeError);
    expect(create).toThrow(/^store /);
    expect(create).toThrow(message);
  });

  it.each([
    'redis://ada:geheim@db/first',
    'redis://:geheim@db:port',
    'redis:/:geheim@db',
    'redis//ada:geheim@db',
    'rediss://ada:gehe@im/geheim@db',
    'redis+ssl://ada:geheim@db',
    'ada:geheim@db',
    'redis://db?password=geheim',
  ])('%s is refused without its password in the message', (store) => {
    const create = () => createChatCompletionsRouter({ store, providers: {}, models: {} });
    expect(create).toThrow(/^store /);
    expect(create).not.toThrow(/geheim/);
  });

  it('makes a router that touches no network and does not load ioredis', () => {
    const source = `
      import { createChatCompletionsRouter } from './src/index.ts';
      import { createRequire } from 'node:module';
      const router = createChatCompletionsRouter({ store: 'redis://192.0.2.1', providers: {}, models: {} });
      const handles = process.getActiveResourcesInfo().filter((name) => /TCP|Timeout|DNS/i.test(name));
      const loaded = Object.keys(createRequire(import.meta.url).cache).filter((file) => file.includes('ioredis'));
      await router.close();
      console.log(JSON.stringify([handles, loaded]));
    `;
    const printed = execFileSync(
      process.execPath,
      ['--experimental-strip-types', '--no-warnings', '--input-type=module', '--eval', source],
      { cwd: new URL('../../..', import.meta.url), encoding: 'utf8' },
    );
    expect(JSON.parse(printed)).toEqual([[], []]);
  });
});
