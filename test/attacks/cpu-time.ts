/** The processor's time that something takes in this process, in ms: the least of several runs, so that no collection counts. */
export function cpuTime(run: () => void, runs = 3): number {
  let least = Infinity;
  for (let i = 0; i < runs; i++) {
    const before = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

/** The same of what waits for others: the time of this process alone, whoever of it works. */
export async function cpuTimeOf(run: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
