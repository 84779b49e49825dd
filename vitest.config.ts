import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

import { defineConfig } from 'vitest/config';

const CORES = availableParallelism();

/** How long `expect.poll` waits for an event that must come: a slow machine needs more than the second that is the default. */
const POLL = { poll: { timeout: 25_000 } };

const path = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

/** Next.js is a package of the e2e tier. */
const NEXT_STAND_IN = { alias: { 'next/server.js': path('test/fixtures/next-server.ts') } };

/** Attacks on a process of its own, the built command or an example. */
const ATTACKS_ON_PROCESSES = [
  'test/attacks/exhaust-memory-by-*.test.ts',
  'test/attacks/reach-it-from-the-network.test.ts',
  'test/attacks/read-the-ledger-file.test.ts',
  'test/attacks/rebind-a-name.test.ts',
];

/** Of the integration tier: what depends on the transport. It runs on each of both. */
const ON_BOTH_TRANSPORTS = [
  'test/integration/{billing,faults,http,observability,upstream}/**/*.test.ts',
  'test/attacks/{flood-before-the-answer,freeze-by-events,pay-less-by-leaving,stall-for-a-free-answer,suppress-usage}.test.ts',
];

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
          expect: POLL,
          testTimeout: 30_000,
        },
      },
      {
        // Half of their time they wait, for sockets and child processes.
        resolve: NEXT_STAND_IN,
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts', 'test/attacks/*.test.ts'],
          exclude: ATTACKS_ON_PROCESSES,
          // Loading all modules again for each file would take a third of the time.
          isolate: false,
          pool: 'forks',
          maxWorkers: 2 * CORES,
          sequence: { groupOrder: 1 },
          expect: POLL,
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        // The same tests on the other transport.
        resolve: NEXT_STAND_IN,
        test: {
          name: 'undici',
          env: { TEST_TRANSPORT: 'undici' },
          include: ON_BOTH_TRANSPORTS,
          isolate: false,
          pool: 'forks',
          maxWorkers: 2 * CORES,
          sequence: { groupOrder: 1 },
          expect: POLL,
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        resolve: { alias: { 'next/server.js': path('test/e2e/node_modules/next/server.js') } },
        test: {
          name: 'e2e',
          include: [
            'test/e2e/{account-page,admin-page,cli,docs,examples,nest,next,package,proxies,redis,sdks}/*.test.ts',
            ...ATTACKS_ON_PROCESSES,
          ],
          pool: 'forks',
          maxWorkers: CORES,
          sequence: { groupOrder: 2 },
          expect: POLL,
          testTimeout: 120_000,
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
          expect: POLL,
          testTimeout: 120_000,
          hookTimeout: 60_000,
        },
      },
      {
        // The packed library beside software of others, which has packages of its own in each folder.
        test: {
          name: 'ecosystem',
          include: [
            'test/e2e/{clients,coding-tools,frameworks,languages,observability,opencode,packaging,runtimes}/*.test.ts',
          ],
          pool: 'forks',
          maxWorkers: CORES,
          sequence: { groupOrder: 4 },
          expect: POLL,
          testTimeout: 120_000,
          hookTimeout: 600_000,
        },
      },
    ],
  },
});
