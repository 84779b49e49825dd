import { rmSync } from 'node:fs';
import { join } from 'node:path';

import { verifyLedger } from '../src/ledger/operations/verify.ts';
import { openStore } from '../src/ledger/stores/open-store.ts';
import { type Child, startChild } from './child.ts';
import { addressOf, type Figure, median } from './figures.ts';
import type { Requests } from './processes/load.ts';
import { startProxy, temporaryFolder } from './proxies.ts';
import type { Proxy } from './proxy.ts';
import type { Bench } from './rounds.ts';

/** What an answer of the benchmark's provider costs: 9 tokens at 1,000 and 12 at 3,000 nano-dollars. */
const COST = 45_000n;

/** One process and two on one ledger, under the same clients: what they carry together, and whether the books are right. */
export async function measureProcesses(bench: Bench): Promise<readonly Figure[]> {
  const figures: Figure[] = [];
  // A ledger that no process of an earlier part has left holds in.
  const context = { ...bench.context, folder: temporaryFolder(), redisUrl: `${bench.context.redisUrl}/1` };
  const alone = { ...bench, context };
  for (const [store, url] of [
    ['Redis', context.redisUrl],
    ['SQLite', `sqlite:${join(context.folder, 'bench.db')}`],
  ] as const) {
    for (const count of [1, 2]) figures.push(...(await measure(alone, store, url, count)));
  }
  rmSync(context.folder, { recursive: true });
  return figures;
}

async function measure(bench: Bench, store: string, url: string, count: number): Promise<readonly Figure[]> {
  const pairs: { readonly proxy: Proxy; readonly load: Child }[] = [];
  for (let n = 0; n < count; n++) {
    // Each on a core, and their clients too: what two carry is limited by those as well.
    const proxy = await startProxy(`router, ${store}`, { ...bench.context, core: n });
    pairs.push({ proxy, load: await startChild('load.ts', [], { core: 1 - n }) });
  }
  const ledger = openStore(url);
  try {
    const before = await ledger.snapshot('bench');
    const rates: number[] = [];
    let answered = 0;
    for (let round = 0; round < bench.rounds; round++) {
      const runs = await Promise.all(
        pairs.map(({ proxy, load }) =>
          load.ask<Requests>('closed', {
            ...addressOf(proxy),
            model: 'json-1200',
            bytes: 1024,
            connections: 32,
            seconds: bench.seconds,
          }),
        ),
      );
      rates.push(runs.reduce((sum, run) => sum + run.answered / run.seconds, 0));
      answered += runs.reduce((sum, run) => sum + run.answered, 0);
    }
    let after = await ledger.snapshot('bench');
    for (let tries = 0; tries < 100 && (after?.held ?? 0n) > 0n; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      after = await ledger.snapshot('bench');
    }
    const uncharged = (after?.spent ?? 0n) - (before?.spent ?? 0n) - COST * BigInt(answered);
    let findings = 0;
    for await (const account of verifyLedger(ledger, { account: 'bench' }))
      findings += account.findings.length;
    const proxy = `router, ${store}`;
    const what = count === 1 ? 'one process' : 'two processes';
    return [
      { what: `${what}, requests a second`, proxy, value: median(rates), unit: '' },
      {
        what: `${what}, charged too much`,
        proxy,
        value: Number(uncharged),
        unit: 'nano-dollars',
        target: '0',
      },
      { what: `${what}, findings of the audit`, proxy, value: findings, unit: '', target: '0' },
    ];
  } finally {
    await ledger.close();
    for (const { proxy, load } of pairs) await Promise.all([proxy.stop(), load.stop()]);
  }
}
