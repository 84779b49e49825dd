import { addressOf, type Figure, figureOf } from './figures.ts';
import { MEMORY } from './ours.ts';
import { startProxy } from './proxies.ts';
import type { Bench } from './rounds.ts';

const STREAMS = 5000;
const OPENING_SECONDS = 60;

/** How many connections a provider has that offers HTTP/2, 100 streams on each, when thousands of its streams are open. */
export async function measureConnections(bench: Bench): Promise<readonly Figure[]> {
  const streams = bench.isQuick ? 500 : STREAMS;
  const what = `connections for ${streams.toLocaleString('en-US')} streams to an HTTP/2 provider`;
  const ports = await bench.upstream.ask<{ readonly http2: number }>('ports');
  const { context } = bench;
  const byHttp2 = { ...context, upstreamPort: ports.http2, caFile: context.certificate };
  const figures: Figure[] = [];
  for (const name of ['bare', ...MEMORY]) {
    const proxy = await startProxy(name, byHttp2);
    try {
      const model = 'stream-1000-2000';
      const limit = { streams, mostSeconds: OPENING_SECONDS };
      const standing = await bench.load.ask<number>('hold', {
        ...addressOf(proxy),
        model,
        bytes: 1024,
        ...limit,
      });
      if (standing < streams) throw new Error(`${name} has begun ${standing} of ${streams} streams`);
      figures.push(figureOf(what, name, '', [await bench.upstream.ask<number>('http2Connections')]));
    } finally {
      await bench.load.ask('release');
      await proxy.stop();
    }
  }
  return figures;
}
