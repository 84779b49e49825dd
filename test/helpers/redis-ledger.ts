import type { Admit, LedgerStore, Settle } from '../../src/ledger/contract/ledger-store.ts';
import { hashOf, MINUTE, requestId, USAGE } from '../contracts/ledger-fixture.ts';

let namespaces = 0;

/** A key prefix that nobody had. */
export function namespace(): string {
  return `test${namespaces++}:`;
}

export function admission(n: number, want: bigint): Admit {
  return {
    account: 'acme',
    key: 'label',
    externalKey: true,
    requestId: requestId(n),
    want,
    min: want,
    leaseMs: MINUTE,
    tokens: 0,
    notAfter: Infinity,
  };
}

export function settlement(n: number, amount: bigint): Settle {
  return {
    account: 'acme',
    requestId: requestId(n),
    amount,
    key: 'label',
    model: 'some/model',
    usage: USAGE,
    force: true,
  };
}

/** Every command once, with its reply. */
export async function story(store: LedgerStore): Promise<unknown> {
  const account = 'acme';
  const key = { account, key: 'k1', hash: hashOf('k1'), name: 'n', limits: { requestsPerMinute: 9 } };
  const replies: unknown[] = [
    await store.createKey(key),
    await store.grant({ account, id: 'g1', amount: 100n }),
    await store.adjust({ account, id: 'a1', delta: -10n, reason: 'why' }),
    await store.admit({ ...admission(1, 30n), key: 'k1', externalKey: false }),
    await store.extend({ account, requestId: requestId(1), hold: 40n, leaseMs: MINUTE, checkpoint: 5n }),
    await store.settle(settlement(1, 12n)),
    await store.admit(admission(2, 30n)),
    await store.void({ account, requestId: requestId(2) }),
    await store.freeze(account, true),
    await store.balance(account),
    await store.findKey(hashOf('k1')),
    await store.revokeKey(account, 'k1'),
    await store.keys(account),
    await store.sweep(10),
    await store.journal(account, 1n, 10),
    await store.compact(account, 1n),
    await everything(store),
  ];
  for await (const each of store.accounts()) replies.push(each);
  return replies;
}

/** State and journal of `acme`. */
export async function everything(store: LedgerStore): Promise<{ state: object; lines: readonly object[] }> {
  const state = await store.snapshot('acme');
  const requests = state?.requests.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const keys = state?.keys.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  return { state: { ...state, requests, keys }, lines: await store.journal('acme', 0n, 1000) };
}
