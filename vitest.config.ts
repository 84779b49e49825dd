import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

import { defineConfig } from 'vitest/config';

const CORES = availableParallelism();

const path = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

/** The tiers run one after the other, in the order of their groups: `npm test` is the first two, `npm run test:all` every one. */
export default defineConfig({
  test: {
    globalSetup: ['test/helpers/build.ts'],
    projects: [
      {
        // No socket, no process, nothing global: the files of a worker share its modules.
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          pool: 'threads',
          isolate: false,
          maxWorkers: CORES,
          sequence: { groupOrder: 0 },
          testTimeout: 15_000,
        },
      },
      {
        // Half of their time they wait, for sockets and child processes.
        resolve: {
          alias: {
            'next/server.js': path('test/fixtures/next-server.ts'),
          },
        },
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts', 'test/attacks/*.test.ts'],
          // A process for each file: nock, once active, changes every request of its process.
          pool: 'forks',
          maxWorkers: 2 * CORES,
          sequence: { groupOrder: 1 },
          testTimeout: 15_000,
          hookTimeout: 60_000,
        },
      },
      {
        resolve: { alias: { 'next/server.js': path('test/e2e/node_modules/next/server.js') } },
        test: {
          name: 'e2e',
          include: ['test/e2e/{admin-page,cli,examples,nest,next,package,sdks}/*.test.ts'],
          pool: 'forks',
          maxWorkers: CORES,
          sequence: { groupOrder: 2 },
          testTimeout: 15_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'chaos',
          include: ['test/chaos/*.test.ts'],
          pool: 'forks',
          maxWorkers: CORES,
          sequence: { groupOrder: 3 },
          testTimeout: 15_000,
          hookTimeout: 60_000,
        },
      },
      {
        // The packed library beside software of others, which has packages of its own in each folder.
        test: {
          name: 'ecosystem',
          include: ['test/e2e/{clients,frameworks,languages,packaging,runtimes}/*.test.ts'],
          pool: 'forks',
          maxWorkers: CORES,
          sequence: { groupOrder: 4 },
          testTimeout: 120_000,
          hookTimeout: 600_000,
        },
      },
    ],
  },
});
