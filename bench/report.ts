import type { Figure, Span } from './figures.ts';
import { markdownTable, rounded } from './markdown.ts';
import { scalingTables } from './scaling-tables.ts';

export interface Machine {
  readonly node: string;
  readonly cpu: string;
  readonly cores: number;
  readonly at: string;
  /** By name. */
  readonly peers: Readonly<Record<string, string>>;
}

/** Where the rounds differ by more than this share of their median, the report gives the least and the most, too. */
const SPAN_SHARE = 0.15;

/** A figure as a line of the table on the screen. */
export function printed({
  what,
  proxy,
  value,
  unit,
  span,
  ratio,
  ratioSpan,
  target = '',
}: Figure): Readonly<Record<string, string>> {
  return {
    what,
    proxy,
    value: withSpan(value, span, rounded, ` ${unit}`),
    'to bare': ratio === undefined ? '' : withSpan(ratio, ratioSpan, twoDigits, '×'),
    target,
  };
}

/** The tables of README.md beside this file and of docs/scaling.md, as far as their parts have run. */
export function markdownOf(machine: Machine, figures: readonly Figure[]): string {
  const { node, cpu, cores, at, peers } = machine;
  const line = `Node ${node.slice(1)}, ${cores} cores (${cpu}), ${at.slice(0, 10)}`;
  return [line, ...resultTables(figures, peers), ...scalingTables(figures)].join('\n\n') + '\n';
}

/** Rows of the table of results, by the figure's name. */
const RESULTS: Readonly<Record<string, string>> = {
  '1 KB, processor time': 'a request of 1 KB',
  '32 KB, processor time': 'of 32 KB',
  '1 MB, processor time': 'of 1 MB',
  '1 KB over TLS, processor time': 'of 1 KB, the provider by TLS',
  '1 KB, requests a second': 'requests of 1 KB a second, on one core',
  '1 KB, allocated on the heap': 'allocated a request of 1 KB',
  '1 KB, processor time of Redis': 'processor time of Redis, a request',
  '1 KB, 300 a second, time added, p50': 'time added to a request, 300 a second, p50',
  '100 streams, 20 ms, processor time a chunk': 'a chunk of 100 streams, one every 20 ms',
  '100 streams, 20 ms, in pairs, processor time a chunk': 'the same, in pairs',
  '100 streams of 50 chunks begin a second, processor time a chunk': 'a chunk of whole streams of 50',
  '100 streams of 50 chunks begin a second, in pairs, processor time a chunk': 'whole streams, in pairs',
  '32 streams at full speed, processor time a chunk': 'a chunk of 32 streams at full speed',
  '100 streams, 20 ms, added to each, p50': 'time added to a chunk, p50',
  '100 streams begin a second, added to the first, p50': 'time added to the first of a stream, p50',
  '100 streams begin a second, in pairs, added to the first, p50': 'the same, in pairs',
  'open streams, memory of each of 5000': 'memory of an open stream, 5,000 of them',
  'open streams, memory of a further one': 'of a further one, once 2,500 are open',
  'connections for 5,000 streams to an HTTP/2 provider':
    'connections for 5,000 streams to an HTTP/2 provider',
};

/** One table of our routers with the floors, and one of the other gateways. */
function resultTables(figures: readonly Figure[], versions: Machine['peers']): readonly string[] {
  const names = [...new Set(figures.filter(({ what }) => what in RESULTS).map(({ proxy }) => proxy))];
  const isOurs = (name: string): boolean => name.startsWith('router, ');
  const ours = names.filter((name) => isOurs(name) || name === 'bare');
  const others = names.filter((name) => !isOurs(name));
  return [ours, others]
    .filter((columns) => columns.length > 1)
    .map((columns) => table(figures, columns, versions));
}

function table(figures: readonly Figure[], columns: readonly string[], versions: Machine['peers']): string {
  const rows = Object.entries(RESULTS).flatMap(([what, title]) => {
    const cells = columns.map((column) => {
      const figure = figures.find((one) => one.what === what && one.proxy === column);
      return figure ? cellOf(figure) : '';
    });
    return cells.every((cell) => cell === '') ? [] : [[title, ...cells]];
  });
  const head = columns.map((column) => `${column} ${versions[column] ?? ''}`.trimEnd());
  return markdownTable(['', ...head], rows);
}

/** A ratio to bare where there is one; bare's own is its value, as are figures that a reader wants as such. */
function cellOf({ what, proxy, value, unit, span, ratio, ratioSpan }: Figure): string {
  if (ratio === undefined || proxy === 'bare' || unit !== 'µs' || what.includes('of Redis')) {
    return withSpan(value, span, rounded, ` ${unit}`.trimEnd());
  }
  return withSpan(ratio, ratioSpan, twoDigits, '×');
}

/** The median, with the least and the most where they are far from it. */
function withSpan(
  value: number,
  span: Span | undefined,
  write: (value: number) => string,
  unit: string,
): string {
  const median = write(value) + unit;
  if (!span || Math.abs(span[1] - span[0]) <= SPAN_SHARE * Math.abs(value)) return median;
  const [least, most] = span.map(write);
  return least === most ? median : `${median} (${least} to ${most})`;
}

function twoDigits(value: number): string {
  return value.toFixed(2);
}
