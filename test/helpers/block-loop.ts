/** Keeps the event loop, as a host's own work does: rendering, a big JSON.parse, a garbage collection. */
export function blockLoop(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}
