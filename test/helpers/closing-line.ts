import type { Reporter, TestModule } from 'vitest/node';

/** Ends the output with `N passed, N failed, N skipped` on a line of its own, for whoever counts. */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const line = closingLine(modules, unhandledErrors);
    // After vitest's own summary, which other reporters write at the same event.
    if (line !== undefined) process.once('exit', () => process.stdout.write(`${line}\n`));
  }
}

/** `undefined` where nothing ran. */
export function closingLine(
  modules: readonly Pick<TestModule, 'children' | 'state'>[],
  unhandledErrors: readonly unknown[],
): string | undefined {
  // One that no test caught fails the run, though each test has passed.
  const count = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
  for (const module of modules) {
    const failedBefore = count.failed;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state !== 'pending') count[state] += 1;
    }
    // A file that can't be loaded has no tests, a broken hook skips them: neither may pass for it.
    if (module.state() === 'failed' && count.failed === failedBefore) count.failed += 1;
  }
  const { passed, failed, skipped } = count;
  if (passed + failed + skipped === 0) return undefined;
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}
