import type { Figure } from './figures.ts';
import { markdownTable, rounded } from './markdown.ts';

/** The load whose needs the second table has. */
const LOAD = { requestsASecond: 1_000_000, chunks: 200, streamSeconds: 10 };
/** How much of a core is planned for: the rest is for bursts, garbage collection and a lost machine. */
const PLANNED_SHARE = 0.6;

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
        `${of('processor time of Redis, a request')} µs`,
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
  return [markdownTable(head, rows), needs(figures)];
}

/** What `LOAD` takes, by the largest of the measured costs. */
function needs(figures: readonly Figure[]): string {
  const names = [...new Set(figures.filter(({ what }) => GROUP.test(what)).map(({ proxy }) => proxy))];
  const { requestsASecond, chunks, streamSeconds } = LOAD;
  const cores = (us: number, perSecond: number): string =>
    rounded(Math.ceil((perSecond * us) / 1e6 / PLANNED_SHARE));
  const rows: readonly (readonly [string, (name: string) => string])[] = [
    [
      'router cores, for requests',
      (name) => cores(largest(figures, 'processor time of the router, a request', name), requestsASecond),
    ],
    [
      'Redis primaries, a core each',
      (name) => cores(largest(figures, 'processor time of Redis, a request', name), requestsASecond),
    ],
    [
      `router cores, for ${chunks} chunks a request`,
      (name) => cores(valueOf(figures, CHUNK, name.replace('Redis', 'memory')), requestsASecond * chunks),
    ],
    [
      `memory of streams of ${streamSeconds} s`,
      (name) => {
        const kilobytes = valueOf(figures, STREAM, name.replace('Redis', 'memory'));
        return `${rounded((requestsASecond * streamSeconds * kilobytes) / 1024 / 1024)} GB`;
      },
    ],
  ];
  const cells = rows.map(([title, of]) => [title, ...names.map(of)]);
  const known = cells.filter((row) => !row.some((cell) => cell.includes('NaN')));
  return markdownTable(['', ...names.map(transportOf)], known);
}

const CHUNK = '500 streams, 20 ms, processor time a chunk';
const STREAM = 'open streams, memory of each of 5000';

function valueOf(figures: readonly Figure[], what: string, proxy: string): number {
  return figures.find((figure) => figure.what === what && figure.proxy === proxy)?.value ?? Number.NaN;
}

function largest(figures: readonly Figure[], metric: string, proxy: string): number {
  const values = figures.filter((figure) => figure.what.endsWith(`, ${metric}`) && figure.proxy === proxy);
  return Math.max(...values.map(({ value }) => value));
}

function transportOf(proxy: string): string {
  return proxy.endsWith(', undici') ? 'undici' : 'http-proxy-middleware';
}
