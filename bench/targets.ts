/** What is to be reached, by line of the report and by proxy. README.md beside it has the same as a table. */
export const TARGETS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '1 KB, processor time': {
    'router, memory': '<= 1.9×',
    'router, memory, undici': '<= 1.4×',
    'router, SQLite': '<= 2.8×',
    'router, SQLite, undici': '<= 2.4×',
    'router, Redis': '<= 2.6×',
    'router, Redis, undici': '<= 2.2×',
  },
  '1 KB, processor time of Redis': { 'router, Redis': '<= 90 µs', 'router, Redis, undici': '<= 90 µs' },
  '1 KB, allocated on the heap': { 'router, memory': '<= 48 KB', 'router, memory, undici': '<= 32 KB' },
  '32 KB, processor time': { 'router, memory': '<= 1.7×', 'router, memory, undici': '<= 1.4×' },
  '1 MB, processor time': { 'router, memory': '<= 1.7×', 'router, memory, undici': '<= 1.7×' },
  '1 MB, longest block of the event loop, over bare': {
    'router, memory': '<= 0.6 ms',
    'router, memory, undici': '<= 0.6 ms',
  },
  '1 KB, 300 a second, time added, p50': {
    'router, memory': '<= 0.19 ms',
    'router, memory, undici': '<= 0.15 ms',
  },
  '100 streams, 20 ms, processor time a chunk': {
    'router, memory': '<= 1.1×',
    'router, memory, undici': '<= 1.1×',
  },
  '100 streams, 20 ms, in pairs, processor time a chunk': {
    'router, memory': '<= 1.1×',
    'router, memory, undici': '<= 1.1×',
  },
  '100 streams of 50 chunks begin a second, processor time a chunk': {
    'router, memory': '<= 1.4×',
    'router, memory, undici': '<= 1.3×',
  },
  '100 streams of 50 chunks begin a second, in pairs, processor time a chunk': {
    'router, memory': '<= 1.4×',
    'router, memory, undici': '<= 1.3×',
  },
  '32 streams at full speed, processor time a chunk': {
    'router, memory': '<= 1.6×',
    'router, memory, undici': '<= 1.4×',
  },
  '100 streams begin a second, added to the first, p50': {
    'router, memory': '<= 0.4 ms',
    'router, memory, undici': '<= 0.35 ms',
  },
  '100 streams begin a second, in pairs, added to the first, p50': {
    'router, memory': '<= 0.4 ms',
    'router, memory, undici': '<= 0.35 ms',
  },
  'open streams, memory of each, over bare': {
    'router, memory': '<= 12 KB',
    'router, memory, undici': '<= 8 KB',
  },
  'connections for 5,000 streams to an HTTP/2 provider': {
    'router, memory': '<= 5,000',
    'router, memory, undici': '<= 60',
  },
};
