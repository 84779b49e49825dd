/**
 * `npm run soak -- --minutes 60`: gateways, clients, operators and a store in which much goes wrong, by one scenario
 * after the other; then each request's charge is held against what the fake provider had told of it.
 *
 * - `--minutes 60`: for all scenarios together, the waits at their ends included
 * - `--scenario redis-rollback,sqlite-*`: those alone; `--list` names all
 * - `--seed 7`: draws the same requests and the same faults; when they meet is up to the machine
 * - `--rate 20`: new requests a second, in place of each scenario's own
 * - `--report FILE`: where the details of all that is wrong go, as JSON
 *
 * Ends with 1 if anything is wrong. The columns of its table: requests sent; those that the provider was asked; faults;
 * charges that are neither exact nor, of an answer that broke, within what the docs say (`wrong`); charges for what the
 * provider never saw (`unsent`); charges that are missing and not told (`lost`); requests charged more than once
 * (`double`); idempotency keys charged more than once, and those of them that the docs except (`in window`); accounts
 * with a stuck hold; keys over their budget, rate or number of concurrent requests; losses that the docs except
 * (`documented`), and those that operators were told of (`told`); requests served while the store was empty; the share of
 * 503s, and how many came while nothing was broken (`503 calm`); how long it took from the end of a fault until a gateway
 * served an account again; gateways that never did (`dead`); requests that the store still knows a day later; the most
 * memory that a gateway had.
 */
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { detailsOf, jsonOf, type Row, rowOf, tableOf } from '../test/soak/report.ts';
import { runScenario, type Scenario } from '../test/soak/scenario.ts';
import { SCENARIOS } from '../test/soak/scenarios.ts';
import { isSound, judge } from '../test/soak/verdict.ts';

/** Of a scenario's time, for what is waited for when its load is over. */
const ENDING_MS = 55_000;
const MIN_LOAD_MS = 20_000;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    scenario: { type: 'string', default: '*' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    rate: { type: 'string' },
    report: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
});
if (values.list) {
  for (const { name } of SCENARIOS) console.log(name);
  process.exit(0);
}
const chosen = SCENARIOS.filter(isChosen);
if (chosen.length === 0) throw new Error(`No scenario is called ${values.scenario}: --list names all`);
const seed = Number(values.seed);
const reportFile = values.report ?? join(tmpdir(), `ccr-soak-${seed}.json`);
const loadMs = Math.max(MIN_LOAD_MS, (Number(values.minutes) * 60_000) / chosen.length - ENDING_MS);
console.log(
  `seed ${seed}, ${chosen.length} scenarios, ${Math.round(loadMs / 1000)} s of load each; ${reportFile}`,
);

const rows: Row[] = [];
const details: object[] = [];
let areAllSound = true;
for (const scenario of chosen) {
  const isItSound = await runOne(scenario).catch((error: unknown) => {
    console.log(`${scenario.name}: the soak itself failed`, error);
    return false;
  });
  areAllSound &&= isItSound;
}
console.log(`\n${areAllSound ? 'Nothing is wrong.' : `Something is wrong: see ${reportFile}`}`);
process.exit(areAllSound ? 0 : 1);

/** Adds its row and its details, and says whether nothing is wrong. */
async function runOne(scenario: Scenario): Promise<boolean> {
  const startedAt = new Date();
  const rate = values.rate === undefined ? scenario.rate : Number(values.rate);
  const evidence = await runScenario(scenario, { seed, loadMs, rate });
  if (!evidence) {
    console.log(`${scenario.name}: not possible on this machine`);
    return true;
  }
  const verdict = judge(evidence);
  const sound = isSound(verdict, evidence);
  const row = rowOf(scenario.name, evidence, verdict);
  rows.push(row);
  details.push({ ...row, startedAt, sound, seed, ...detailsOf(evidence, verdict) });
  writeFileSync(reportFile, jsonOf(details));
  const lines = tableOf([row]).split('\n');
  console.log((rows.length === 1 ? lines : lines.slice(2)).join('\n'));
  return sound;
}

function isChosen({ name }: Scenario): boolean {
  return values.scenario
    .split(',')
    .some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}
