import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = new URL('../../..', import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), 'ccr-contracts-'));

/** A project of someone else: the packed package, Vitest and what the suites need, in Vitest's default config. */
beforeAll(() => {
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], { cwd: ROOT });
  const tarball = readdirSync(folder).find((file) => file.endsWith('.tgz')) ?? '';
  const packages = join(folder, 'node_modules');
  const installed = join(packages, 'chat-completions-router');
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', join(folder, tarball), '-C', installed, '--strip-components=1']);
  const { dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  for (const name of [...Object.keys(dependencies), 'vitest', 'fast-check', 'openai', '@types']) {
    mkdirSync(join(packages, name, '..'), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), join(packages, name));
  }
  cpSync(join(import.meta.dirname, 'contracts'), folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

interface Report {
  readonly numPassedTests: number;
  readonly testResults: readonly { readonly assertionResults: readonly Assertion[] }[];
}

interface Assertion {
  readonly fullName: string;
  readonly status: string;
}

/** Runs one file as its author would, without what our own runs say by their environment. */
function run(file: string): { readonly status: number | null; readonly report: Report } {
  const output = join(folder, `${file}.json`);
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', '--reporter=json', `--outputFile=${output}`, file];
  const env = { PATH: process.env['PATH'], TMPDIR: tmpdir() };
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8', env });
  if (!existsSync(output)) throw new Error(stderr);
  return { status, report: JSON.parse(readFileSync(output, 'utf8')) as Report };
}

/** The parts of a store that are optional, as their tests begin. */
const OPTIONAL = [
  'a claim',
  'gateways',
  'a log of requests',
  'changes of the routing',
  'costs of providers',
  'the journal has sums of these lines',
];

function failuresIn(report: Report): string[] {
  return namesOf(report, 'failed');
}

function namesOf(report: Report, wanted: 'passed' | 'failed' | 'skipped'): string[] {
  const all = report.testResults.flatMap(({ assertionResults }) => assertionResults);
  return all.filter(({ status }) => status === wanted).map(({ fullName }) => fullName);
}

describe("the package's contract suites", { timeout: 120_000 }, () => {
  it('pass for a store of another author, and let it remove what it made', () => {
    const { status, report } = run('store.test.ts');
    expect(failuresIn(report)).toEqual([]);
    expect(status).toBe(0);
    expect(report.numPassedTests).toBeGreaterThan(500);
    // What a store may leave out, and nothing else.
    const skipped = namesOf(report, 'skipped').map((name) =>
      name.replace('AcmeStore as a ledger store ', ''),
    );
    expect(skipped.filter((name) => !OPTIONAL.some((part) => name.startsWith(part)))).toEqual([]);
  });

  it('fail for a store that charges a request twice', () => {
    const { status, report } = run('charging-twice.test.ts');
    expect(status).toBe(1);
    expect(failuresIn(report)).toEqual(
      expect.arrayContaining([
        'ChargingTwice as a ledger store settle charges once, however often it is called',
        'ChargingTwice as a ledger store behaves like the model under any sequence of commands',
      ]),
    );
  });

  it('pass for a server of another author, each test of them', () => {
    const { status, report } = run('mount.test.ts');
    expect(failuresIn(report)).toEqual([]);
    expect(status).toBe(0);
    expect(namesOf(report, 'passed')).toContain(
      'the router on a server of my own says that a model does not exist',
    );
    expect(namesOf(report, 'skipped')).toEqual([]);
  });

  it('have types that need none of Vitest, fast-check and openai', () => {
    const compilerOptions = {
      module: 'nodenext',
      target: 'es2023',
      lib: ['es2023'],
      types: ['node'],
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
    };
    writeFileSync(
      join(folder, 'use.ts'),
      `import { describeLedgerStore, describeRouter, type Mount } from 'chat-completions-router/testing/contracts';
       import { AcmeStore } from './acme-store.js';
       const mount: Mount = async () => ({ baseURL: 'http://127.0.0.1:1/v1', close: async () => {} });
       describeRouter('it', mount, { keepsHeads: true });
       describeLedgerStore('it', ({ now }) => new AcmeStore(now), { destroy: (store: AcmeStore) => store.close() });
       // @ts-expect-error -- a store is an object with all commands
       describeLedgerStore('it', () => ({ close: async () => {} }));
       // @ts-expect-error -- of our own runs alone
       describeLedgerStore('it', ({ now }) => new AcmeStore(now), { isReliable: true });`,
    );
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }));
    const { stdout, status } = spawnSync('tsc', ['-p', folder, '--listFiles'], { encoding: 'utf8' });
    expect(status, stdout).toBe(0);
    expect(stdout).not.toMatch(/node_modules\/(vitest|fast-check|openai)\//);
  });
});
