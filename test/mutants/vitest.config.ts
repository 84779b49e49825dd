import { defineConfig } from 'vitest/config';

/** Not part of the tests: `npm run mutants` runs it. */
export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/mutants/*.hunt.ts'],
    pool: 'forks',
    server: { deps: { external: [/\/ccr-mutants-/] } },
  },
});
