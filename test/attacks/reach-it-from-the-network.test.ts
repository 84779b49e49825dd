import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';

import { describe, expect, it } from 'vitest';

import { spawnExample, startDemo } from '../helpers/example.ts';

/** Addresses of this machine at which a server that listens at all of them is reached. */
const OTHERS = [
  '127.0.0.2',
  '::1',
  ...Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, scopeid }) => !internal && !scopeid)
    .map(({ address }) => address),
];

async function answers(host: string, port: number): Promise<boolean> {
  const socket = connect(port, host);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** The example of payments starts with keys of Stripe only. */
const KEYS = { STRIPE_SECRET_KEY: 'sk_test_1', STRIPE_WEBHOOK_SECRET: 'whsec_1' };

const EXAMPLES = readdirSync('examples').filter((name) => !/README|^demo$/.test(name));

describe('from another machine', () => {
  it.for(EXAMPLES)(
    'the example %s is not reached',
    { timeout: 120_000 },
    async (name, { onTestFinished }) => {
      const started = name === 'next' ? /Ready in/ : /Ctrl-C/;
      const example = await spawnExample(name, KEYS, started);
      onTestFinished(async () => void (await example.stop()));
      await expectLoopbackOnly(example.banner);
    },
  );

  it('the demo is not reached', async ({ onTestFinished }) => {
    const demo = await startDemo({ PORT: '0' });
    onTestFinished(async () => void (await demo.stop()));
    await expectLoopbackOnly(demo.banner);
  });
});

/** Expects that each address that was printed is reached from this machine and from no other. */
async function expectLoopbackOnly(banner: string): Promise<void> {
  const ports = [...banner.matchAll(/http:\/\/(?:localhost|127\.0\.0\.1):(\d+)/g)];
  expect(ports.length).toBeGreaterThan(0);
  for (const port of new Set(ports.map(([, port]) => Number(port)))) {
    expect(await answers('127.0.0.1', port)).toBe(true);
    for (const host of OTHERS) expect([host, await answers(host, port)]).toEqual([host, false]);
  }
}
