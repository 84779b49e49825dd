import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // `npm run test:e2e`
    exclude: ['**/node_modules/**', 'test/e2e/**'],
    globalSetup: ['test/helpers/build.ts'],
    // A process for each file: nock, once active, changes every request of its process.
    pool: 'forks',
    testTimeout: 15_000,
    hookTimeout: 60_000,
  },
});
