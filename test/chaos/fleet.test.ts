import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

import { expect, it, onTestFinished } from 'vitest';

import { completionBody, startProvider } from '../helpers/provider.ts';
import { startRedis } from '../helpers/redis-server.ts';
import type { FleetMemberOptions } from '../processes/fleet-member.ts';

/** A second of the tests' minute, which is one of 9 seconds. */
const BUCKET_MS = 150;
const MINUTE = 60 * BUCKET_MS;

interface Member {
  readonly child: ChildProcess;
  /** Of its answers, and how many had it. */
  readonly answers: Map<string, number>;
  readonly errors: string[];
  /** Changes of its target. */
  readonly health: string[];
  readonly tell: (line: string) => void;
}

async function startMember(options: FleetMemberOptions): Promise<Member> {
  const script = join(import.meta.dirname, '../processes/fleet-member.ts');
  const child = spawn(process.execPath, ['--no-warnings', script, JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  });
  const answers = new Map<string, number>();
  const errors: string[] = [];
  const health: string[] = [];
  const ready = Promise.withResolvers<void>();
  child.once('exit', () => ready.reject(new Error('The member ended before it was ready')));
  createInterface(child.stdout).on('line', (line) => {
    const [word, ...rest] = line.split(' ');
    if (word === 'ready') ready.resolve();
    if (word === 'answer') answers.set(rest.join(' '), (answers.get(rest.join(' ')) ?? 0) + 1);
    if (word === 'health') health.push(rest.join(' '));
    if (word === 'error') errors.push(rest.join(' '));
  });
  await ready.promise;
  return { child, answers, errors, health, tell: (line) => void child.stdin.write(`${line}\n`) };
}

/** A provider that allows so many requests in any minute, by its own clock. */
async function startLimitedProvider(
  limit: number,
): Promise<{ baseURL: string; served: number[]; refused: number[] }> {
  const provider = await startProvider();
  onTestFinished(() => provider.close());
  const served: number[] = [];
  const refused: number[] = [];
  let first = 0;
  const body = JSON.stringify(completionBody());
  provider.script = (response) => {
    const now = performance.now();
    while ((served[first] ?? Infinity) <= now - MINUTE) first += 1;
    const isFull = served.length - first >= limit;
    (isFull ? refused : served).push(now);
    response.writeHead(isFull ? 429 : 200, { 'content-type': 'application/json' });
    response.end(isFull ? '{"error":{"message":"Rate limit reached"}}' : body);
  };
  return { baseURL: provider.baseURL, served, refused };
}

it('8 processes send what a provider allows them together: at most 1 % of it is refused, and 5 % idle', async () => {
  const server = await startRedis();
  onTestFinished(() => server.stop());
  const provider = await startLimitedProvider(600);
  const options = {
    store: server.url,
    provider: provider.baseURL,
    limits: { requestsPerMinute: 600 },
    bucketMs: BUCKET_MS,
  };
  const fleet = await Promise.all(Array.from({ length: 8 }, () => startMember(options)));
  // 2,000 a minute.
  for (const { tell } of fleet) tell(`offer ${2000 / 8 / (MINUTE / 1000)}`);
  await pause(2.5 * MINUTE);
  for (const { tell } of fleet) tell('stop');
  const { served, refused } = provider;
  const spans = served.slice(600).map((at, index) => at - (served[index] ?? 0));
  const used = (MINUTE * spans.length) / spans.reduce((total, span) => total + span, 0);
  expect(refused.length).toBeLessThanOrEqual(0.01 * served.length);
  expect(used).toBeGreaterThan(0.95);
  for (const { answers, errors } of fleet) {
    expect(answers.get('200 -')).toBeGreaterThan(0);
    // Of the provider's refusals, 1 % may be.
    expect(errors.filter((error) => !error.includes('answered with status 429'))).toEqual([]);
  }
});

it('8 processes without options send what a provider says is left, and the rest elsewhere: at most 1 % of it is refused, and 5 % idle', async () => {
  const [server, limited, spare] = await Promise.all([startRedis(), startProvider(), startProvider()]);
  onTestFinished(async () => {
    await Promise.all([server.stop(), limited.close(), spare.close()]);
  });
  const limit = 600;
  const begunAt = performance.now();
  /** What was served, by window. */
  const windows: number[] = [];
  let refused = 0;
  limited.script = (response) => {
    const at = performance.now() - begunAt;
    const window = Math.floor(at / MINUTE);
    const served = windows[window] ?? 0;
    const isFull = served >= limit;
    if (isFull) refused += 1;
    else windows[window] = served + 1;
    response.writeHead(isFull ? 429 : 200, {
      'content-type': 'application/json',
      'x-ratelimit-remaining-requests': String(limit - (windows[window] ?? 0)),
      'x-ratelimit-reset-requests': `${Math.ceil((window + 1) * MINUTE - at)}ms`,
    });
    response.end(isFull ? '{"error":{"message":"Rate limit reached"}}' : JSON.stringify(completionBody()));
  };
  spare.script = answer;
  const options = {
    store: server.url,
    provider: limited.baseURL,
    spare: spare.baseURL,
    bucketMs: BUCKET_MS,
  };
  const fleet = await Promise.all(Array.from({ length: 8 }, () => startMember(options)));
  for (const { tell } of fleet) tell(`offer ${2000 / 8 / (MINUTE / 1000)}`);
  await pause(3.5 * MINUTE);
  for (const { tell } of fleet) tell('stop');
  // Whole windows, which began while requests were offered.
  const whole = windows.filter((served) => served > 0).slice(1, -1);
  expect(whole.length).toBeGreaterThanOrEqual(2);
  for (const served of whole) expect(served).toBeGreaterThan(0.95 * limit);
  expect(refused).toBeLessThanOrEqual(0.01 * windows.reduce((sum, each) => sum + each, 0));
  for (const { answers } of fleet) expect(answers.get('200 -')).toBeGreaterThan(0);
});

it('8 processes serve each request while Redis is gone and when it is back, and know of each other again', async () => {
  const server = await startRedis();
  onTestFinished(() => server.stop());
  const provider = await startProvider();
  onTestFinished(() => provider.close());
  provider.script = answer;
  const options = {
    store: server.url,
    ownCredits: true,
    provider: provider.baseURL,
    // There is room for all, of the whole limit and of a process's part of it.
    limits: { requestsPerMinute: 6000 },
    bucketMs: BUCKET_MS,
    health: { failures: 3, coolDownMs: 300 },
  };
  const fleet = await Promise.all(Array.from({ length: 8 }, () => startMember(options)));
  for (const { tell } of fleet) tell(`offer ${2000 / 8 / (MINUTE / 1000)}`);
  const servedBy = ({ answers }: Member): number => answers.get('200 -') ?? 0;
  const allServe = async (more: number): Promise<void> => {
    const before = fleet.map(servedBy);
    await expect
      .poll(() => fleet.every((member, n) => servedBy(member) >= (before[n] ?? 0) + more))
      .toBe(true);
  };
  await allServe(20);
  await server.restart(async () => {
    await expect.poll(() => fleet.every(({ errors }) => errors.length > 0)).toBe(true);
    await allServe(50);
  });
  await allServe(50);
  for (const { tell } of fleet) tell('stop');
  for (const { answers, errors } of fleet) {
    expect([...answers.keys()]).toEqual(['200 -']);
    for (const error of errors) expect(error).toContain("The fleet's view of providers is unavailable");
  }
  // What one ejects, the others know.
  const [one, ...others] = fleet;
  provider.script = (response) => response.writeHead(503).end('{}');
  for (const account of ['a', 'b', 'c']) for (let n = 0; n < 3; n++) one!.tell(`ask ${account}`);
  for (const other of others) await expect.poll(() => other.health).toContain('target_ejected');
});

function answer(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(completionBody()));
}

it('what a killed process ran is free again for the others', async () => {
  const server = await startRedis();
  onTestFinished(() => server.stop());
  const provider = await startProvider();
  onTestFinished(() => provider.close());
  let held = 0;
  provider.script = answer;
  const options = {
    store: server.url,
    provider: provider.baseURL,
    limits: { concurrentRequests: 3 },
    bucketMs: 1000,
  };
  const [killed, other] = await Promise.all([startMember(options), startMember(options)]);
  // A process knows of the others from its first request on.
  other.tell('ask');
  await expect.poll(() => other.answers.get('200 -')).toBe(1);
  provider.script = () => {
    held += 1;
  };
  await expect
    .poll(() => {
      if (held < 3) killed.tell('ask');
      return held;
    })
    .toBe(3);
  await expect
    .poll(() => {
      other.tell('ask');
      return other.answers.get('429 upstream_at_capacity') ?? 0;
    })
    .toBeGreaterThan(2);
  expect(held).toBe(3);
  provider.script = answer;
  killed.child.kill('SIGKILL');
  await expect
    .poll(() => {
      other.tell('ask');
      return other.answers.get('200 -') ?? 0;
    })
    .toBeGreaterThan(2);
});

it('a target that fails in one process is ejected in the others, and recovers for all', async () => {
  const server = await startRedis();
  onTestFinished(() => server.stop());
  const provider = await startProvider();
  onTestFinished(() => provider.close());
  const health = { failures: 3, coolDownMs: 300 };
  const options = { store: server.url, provider: provider.baseURL, bucketMs: 1000, health };
  const fleet = await Promise.all([startMember(options), startMember(options)]);
  const [one, other] = fleet;
  // Both are in use.
  provider.script = answer;
  for (const { tell } of fleet) tell('ask');
  await expect.poll(() => [one.answers.get('200 -'), other.answers.get('200 -')]).toEqual([1, 1]);
  // Of one account: nothing for others.
  provider.script = (response) => response.writeHead(503).end('{}');
  for (let n = 0; n < 3; n++) one.tell('ask a');
  await expect.poll(() => one.health).toEqual(['target_ejected']);
  expect(other.health).toEqual([]);
  for (const account of ['b', 'c']) one.tell(`ask ${account}`);
  await expect.poll(() => other.health).toEqual(['target_ejected']);
  provider.script = answer;
  other.tell('ask');
  await expect
    .poll(() => [one.health.at(-1), other.health.at(-1)])
    .toEqual(['target_recovered', 'target_recovered']);
});
