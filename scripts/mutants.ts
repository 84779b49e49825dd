/**
 * `npm run mutants`: changes the ledger's code, a line at a time, and says which changes its tests don't notice.
 *
 * Each mutant meets random commands compared with the model first; what survives that meets the whole
 * suite of its store, in a copy of the tree. Takes an hour: for those who change the ledger, not for each push.
 *
 * `npm run mutants -- redis --only admit.ts --from 100 --count 50 --jobs 2`; `--every 10` takes a sample of all files; with
 * `--again`, what an earlier hunt printed into that file, only those meet the suite that survived then.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';

import { type Equivalent, EQUIVALENT } from '../test/mutants/equivalent.ts';
import { type Kind, type Mutant, mutated, mutantsOf } from '../test/mutants/mutants.ts';

const KINDS: readonly Kind[] = ['memory', 'redis'];
const ROOT = new URL('..', import.meta.url).pathname;
/** How long one mutant may take to meet the model; a loop without end takes longer. */
const MODEL_MS = 45_000;
const SUITE_MS = 180_000;
const SUITE: Readonly<Record<Kind, readonly string[]>> = {
  redis: [
    'integration/redis/redis-store',
    'integration/redis/redis-functions',
    'integration/redis/redis-link-lua',
    'integration/redis/redis-records',
    'integration/redis/redis-usage',
    'integration/redis/redis-sweep',
    'integration/redis/redis-due',
    'integration/redis/redis-gateways',
    'integration/redis/redis-horizon',
    'integration/redis/redis-durability',
  ],
  memory: ['unit/ledger/memory-store', 'integration/sqlite/sqlite-store'],
};
for (const name of Object.values(SUITE).flat()) {
  // vitest says nothing of a name that matches no file.
  if (!existsSync(testFile(name))) throw new Error(`There is no ${testFile(name)}`);
}

const COPIED = [
  'src',
  'test',
  'scripts',
  'package.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'vitest.config.ts',
];
/** The settings of the tiers, without the build that goes before all tests. */
const CONFIG = `import { defineConfig } from 'vitest/config';
import tiers from './vitest.config.ts';
export default defineConfig({ test: { projects: tiers.test.projects } });
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: 'string' },
    from: { type: 'string', default: '0' },
    count: { type: 'string', default: 'Infinity' },
    every: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '2' },
    list: { type: 'boolean', default: false },
    again: { type: 'string' },
  },
});
const stale = EQUIVALENT.filter(
  (each) => !KINDS.some((kind) => mutantsOf(kind).some((mutant) => isSame(each, mutant))),
);
if (stale.length > 0) {
  console.error('These lines of test/mutants/equivalent.ts match no mutant any more:', stale);
  process.exit(1);
}
const folder = mkdtempSync(join(tmpdir(), 'ccr-hunt-'));
const printed = values.again === undefined ? undefined : survivorsIn(readFileSync(values.again, 'utf8'));
const survivors: Mutant[] = [];
let met = 0;
for (const kind of KINDS.filter((each) => positionals.length === 0 || positionals.includes(each))) {
  const all = mutantsOf(kind).filter(({ file }) => !values.only || file.endsWith(values.only));
  const from = Number(values.from);
  const mutants = all
    .filter((mutant) => !isEquivalent(mutant) && (printed === undefined || printed.has(shown(mutant))))
    .filter((_, index) => index % Number(values.every) === 0)
    .slice(from, from + Number(values.count));
  if (values.list) for (const mutant of mutants) console.log(shown(mutant));
  else survivors.push(...(await hunt(kind, mutants)));
  met += mutants.length;
}
rmSync(folder, { recursive: true, force: true });
for (const mutant of survivors) console.log(`\nsurvived  ${shown(mutant)}`);
console.log(`\n${met} mutants, ${survivors.length} survived.`);
process.exit(survivors.length === 0 ? 0 : 1);

async function hunt(kind: Kind, mutants: readonly Mutant[]): Promise<Mutant[]> {
  const jobs = Number(values.jobs);
  const shares = Array.from({ length: jobs }, (_, job) => mutants.filter((_, index) => index % jobs === job));
  const unnoticed = printed
    ? mutants
    : (await Promise.all(shares.map((share, job) => meetModel(kind, share, job)))).flat();
  console.log(
    `${kind}: ${mutants.length} mutants, ${unnoticed.length} were not noticed by comparing with the model.`,
  );
  if (unnoticed.length > 0 && (await failsSuite(kind))) {
    throw new Error(`The suite of ${kind} fails unchanged, or takes longer than ${SUITE_MS / 1000} s`);
  }
  const left: Mutant[] = [];
  const queue = [...unnoticed];
  const worker = async (): Promise<void> => {
    for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
      const killed = await failsSuite(kind, mutant);
      console.log(`${killed ? 'killed  ' : 'SURVIVED'}  ${shown(mutant)}`);
      if (!killed) left.push(mutant);
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return left;
}

/** Those that random commands did not tell from the original. */
async function meetModel(kind: Kind, mutants: readonly Mutant[], job: number): Promise<Mutant[]> {
  const unnoticed: Mutant[] = [];
  for (let next = 0; next < mutants.length;) {
    const rest = mutants.slice(next);
    const judged = await judge(kind, rest, join(folder, `${kind}-${job}-${next}`));
    unnoticed.push(...rest.filter((_, index) => judged[index] === false));
    next += judged.length;
  }
  return unnoticed;
}

/** Whether each of the first mutants was killed: all of them, or those up to one that never ended. */
async function judge(kind: Kind, mutants: readonly Mutant[], path: string): Promise<boolean[]> {
  writeFileSync(`${path}.in`, JSON.stringify({ kind, mutants }));
  const args = ['run', '-c', 'test/mutants/vitest.config.ts', 'test/mutants/model.hunt.ts'];
  const env = { ...process.env, MUTANTS_IN: `${path}.in`, MUTANTS_OUT: `${path}.out` };
  const child = spawn('vitest', args, { cwd: ROOT, env, stdio: 'ignore', detached: true });
  const closed = once(child, 'close');
  const judged: boolean[] = [];
  let begun = -1;
  let told = 0;
  let toldAt = Date.now();
  const watch = setInterval(() => {
    const lines = existsSync(`${path}.out`)
      ? readFileSync(`${path}.out`, 'utf8').split('\n').slice(0, -1)
      : [];
    if (lines.length > told) toldAt = Date.now();
    for (const line of lines.slice(told)) {
      const [index, what] = line.split(' ');
      begun = Number(index);
      if (what !== 'begun') judged[begun] = what === 'killed';
    }
    told = lines.length;
    if (Date.now() - toldAt > MODEL_MS) end(child);
  }, 200);
  await closed;
  await new Promise((resolve) => setTimeout(resolve, 300));
  clearInterval(watch);
  // The one that was met when the process ended, ended it. Between two it ends only because the code was edited.
  if (begun >= 0 && judged[begun] === undefined) judged[begun] = true;
  else if (judged.length < mutants.length)
    throw new Error('The hunt stopped: was the ledger edited meanwhile, or does it fail unchanged?');
  return judged;
}

/** Whether the store's own tests fail, or don't end, in a copy of the tree that has the mutant in it. */
async function failsSuite(kind: Kind, mutant?: Mutant): Promise<boolean> {
  const tree = mkdtempSync(join(folder, 'tree-'));
  for (const name of COPIED) {
    cpSync(join(ROOT, name), join(tree, name), {
      recursive: true,
      filter: (from) => basename(from) !== 'node_modules',
    });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
  if (mutant) writeFileSync(join(tree, 'src/ledger', mutant.file), mutated(mutant));
  const projects = ['unit', 'integration'].flatMap((name) => ['--project', name]);
  writeFileSync(join(tree, 'suite.config.ts'), CONFIG);
  const args = ['run', '-c', 'suite.config.ts', '--bail', '1', ...projects, ...SUITE[kind].map(testFile)];
  const env = { ...process.env, CCR_FULL: '1' };
  const child = spawn('vitest', args, { cwd: tree, env, stdio: 'ignore', detached: true });
  const timer = setTimeout(end, SUITE_MS, child);
  await once(child, 'close');
  clearTimeout(timer);
  rmSync(tree, { recursive: true, force: true });
  return child.exitCode !== 0;
}

function testFile(name: string): string {
  return `test/${name}.test.ts`;
}

/** With all that it has started. */
function end(child: ChildProcess): void {
  if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
}

function survivorsIn(log: string): ReadonlySet<string> {
  return new Set([...log.matchAll(/^SURVIVED {2}(.*\n.*\n.*)$/gm)].map(([, mutant = '']) => mutant));
}

function isEquivalent(mutant: Mutant): boolean {
  return EQUIVALENT.some((each) => isSame(each, mutant));
}

function isSame(each: Equivalent, { file, original, mutant }: Mutant): boolean {
  return each.file === file && each.original === original.trim() && each.mutant === mutant.trim();
}

function shown({ file, line, original, mutant }: Mutant): string {
  return `${file}:${line}\n    - ${original.trim()}\n    + ${mutant.trim()}`;
}
