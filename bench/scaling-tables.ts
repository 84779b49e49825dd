import type { Figure } from './figures.ts';
import { markdownTable, rounded } from './markdown.ts';

/** The load whose needs the second table has. */
const LOAD = { requestsASecond: 1_000_000, chunks: 200, streamSeconds: 10 };
/** How much of a core is planned for: the rest is for bursts, garbage collection and a lost machine. */
const PLANNED_SHARE = 0.6;

const ROUTER = 'processor time of the router, a request';
const REDIS = 'processor time of Redis, a request';
const GROUP = /^((\d+) process(?:es)? on (.*)), processor time of the router, a request$/;

/** The tables of docs/scaling.md: what was measured, and what a larger load takes by the formula of the page. */
export function scalingTables(figures: readonly Figure[]): readonly string[] {
  const rows = figures.flatMap((figure) => {
    const [, group = '', processes = '', ledger = ''] = GROUP.exec(figure.what) ?? [];
    if (group === '') return [];
    const { proxy } = figure;
    const of = (metric: string): string => rounded(valueOf(figures, `${group}, ${metric}`, proxy));
    return [
      [
        ledger,
        processes,
        transportOf(proxy),
        `${rounded(figure.value)} µs`,
        of('requests a second that a core carries'),
        `${of(REDIS)} µs`,
        `${of('share of the busiest node')} %`,
      ],
    ];
  });
  if (rows.length === 0) return [];
  const head = [
    'ledger',
    'processes',
    'transport',
    'router, a request',
    'requests a second, a core',
    'Redis, a request',
    'busiest node',
  ];
  return [markdownTable(head, rows), ...needs(figures)];
}

/** What `LOAD` takes, by the costs on a cluster and what sharing a ledger adds to them. */
function needs(figures: readonly Figure[]): readonly string[] {
  const names = [...new Set(figures.filter(({ what }) => GROUP.test(what)).map(({ proxy }) => proxy))];
  const { requestsASecond, chunks, streamSeconds } = LOAD;
  const cores = (us: number, perSecond: number): string =>
    rounded(Math.ceil((perSecond * us) / 1e6 / PLANNED_SHARE));
  const onCluster = (metric: string, name: string): number =>
    valueOf(figures, `1 process on a cluster of 3, ${metric}`, name) * sharing(figures, metric, name);
  const withoutLedger = (what: string, name: string): number =>
    valueOf(figures, what, name.replace('Redis', 'memory'));
  const rows: readonly (readonly [string, (name: string) => string])[] = [
    ['a request, router', (name) => `${rounded(onCluster(ROUTER, name))} µs`],
    ['a request, Redis', (name) => `${rounded(onCluster(REDIS, name))} µs`],
    ['a chunk, router', (name) => `${rounded(withoutLedger(CHUNK, name))} µs`],
    ['an open stream', (name) => `${rounded(withoutLedger(STREAM, name))} KB`],
    ['**router cores, for requests**', (name) => cores(onCluster(ROUTER, name), requestsASecond)],
    ['**Redis primaries, a core each**', (name) => cores(onCluster(REDIS, name), requestsASecond)],
    [
      `**router cores, for ${chunks} chunks a request**`,
      (name) => cores(withoutLedger(CHUNK, name), requestsASecond * chunks),
    ],
    [
      `**memory of streams of ${streamSeconds} s**`,
      (name) => `${rounded((requestsASecond * streamSeconds * withoutLedger(STREAM, name)) / 1e6)} GB`,
    ],
  ];
  const cells = rows.map(([title, of]) => [title, ...names.map(of)]);
  const known = cells.filter((row) => !row.some((cell) => cell.includes('NaN')));
  return known.length === 0 ? [] : [markdownTable(['', ...names.map(transportOf)], known)];
}

/** How much dearer a request is where four processes share a Redis, to four with one each; both share the machine's cores. */
function sharing(figures: readonly Figure[], metric: string, name: string): number {
  const [shared, apart] = ['one Redis', 'a Redis each'].map((ledger) =>
    valueOf(figures, `4 processes on ${ledger}, ${metric}`, name),
  );
  return Math.max(1, (shared ?? Number.NaN) / (apart ?? Number.NaN));
}

const CHUNK = '500 streams, 20 ms, processor time a chunk';
const STREAM = 'open streams, memory of each of 5000';

function valueOf(figures: readonly Figure[], what: string, proxy: string): number {
  return figures.find((figure) => figure.what === what && figure.proxy === proxy)?.value ?? Number.NaN;
}

function transportOf(proxy: string): string {
  return proxy.endsWith(', undici') ? 'undici' : 'http-proxy-middleware';
}
