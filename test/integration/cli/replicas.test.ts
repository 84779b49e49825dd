import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { MemoryStore } from '../../../src/index.ts';
import { requestId, USAGE } from '../../contracts/ledger-fixture.ts';
import { run } from './run-in-process.ts';

const REQUEST = requestId(1, Date.now());
const UNSAFE = '(NOT on the configured number of replicas: repeat the command)';

let folder: string;

/** A store whose changes aren't on enough replicas, with 5 USD of `acme` of which a request was charged 2. */
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ccr-replicas-'));
  const store = new MemoryStore();
  const account = 'acme';
  await store.grant({ account, id: 'g1', amount: 5_000_000_000n });
  await store.createKey({ account, key: 'k1', hash: 'a'.repeat(64), name: '', limits: {} });
  const leaseMs = 60_000;
  const charge = { account, requestId: REQUEST, key: 'k1' };
  await store.admit({ ...charge, want: 2_000_000_000n, min: 0n, leaseMs, tokens: 0, notAfter: Infinity });
  await store.settle({ ...charge, amount: 2_000_000_000n, model: 'm', usage: USAGE, force: false });
  const changes = ['grant', 'adjust', 'allow', 'endAllowance', 'setFloor', 'refund', 'deleteAccount'];
  const unsafe = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (name === 'close') return async () => {};
      if (typeof member !== 'function') return member;
      if (!changes.includes(String(name))) return member.bind(target);
      return async (...args: unknown[]) => ({ ...(await member.apply(target, args)), durable: false });
    },
  });
  vi.stubGlobal('configOfReplicas', { providers: {}, models: {}, store: unsafe });
  writeFileSync(
    join(folder, 'chat-completions-router.config.mjs'),
    'export default globalThis.configOfReplicas;',
  );
});

afterEach(() => {
  vi.unstubAllGlobals();
  rmSync(folder, { recursive: true });
});

it('a change that is not on enough replicas says so, and exits with 1', async () => {
  const lines: [string[], string][] = [
    [['credits', 'grant', 'acme', '1', '--id', 'g2'], `acme: $4.00 available ${UNSAFE}`],
    [['credits', 'grant', 'acme', '1', '--id', 'g2'], `acme: $4.00 available (already applied) ${UNSAFE}`],
    [['credits', 'adjust', 'acme', '1', '--id', 'a1', '--reason', 'r'], `acme: $5.00 available ${UNSAFE}`],
    [
      ['credits', 'allow', 'acme', '3', '--id', 'pro', '--per', 'hour'],
      `acme: $8.00 available, resets … ${UNSAFE}`,
    ],
    [['credits', 'end', 'acme', 'pro', '--now'], `acme: $5.00 available ${UNSAFE}`],
    [['credits', 'limit', 'acme', '9'], `acme: may owe $9.00, before $0.00 ${UNSAFE}`],
    [['credits', 'refund', REQUEST, '--reason', 'broken'], `acme: $2.00 refunded, $7.00 available ${UNSAFE}`],
    [
      ['delete', 'acme'],
      'acme: deleted; its sums are … (NOT on the configured number of replicas: after a failover, repeat the command)',
    ],
  ];
  for (const [args, line] of lines) {
    const { code, stdout } = await run(args, { folder });
    expect([code, stdout.replace(/(?<=resets |are )\S+/, '…')]).toEqual([1, `${line}\n`]);
  }
});
