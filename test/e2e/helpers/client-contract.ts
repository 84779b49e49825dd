import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletionsRouterOptions } from '../../../src/index.ts';
import { type Gateway, startGateway } from '../../helpers/gateway.ts';
import {
  REQUEST_ID_HEADER,
  type ScriptedProvider,
  type Served,
  startScriptedProvider,
  type ToldUsage,
} from './scripted-provider.ts';

/**
 * A program in whatever language that asks a gateway by a client library, and prints a line of JSON for each check:
 *
 *     {"check":"completion","ok":true,"detail":"Hello from the provider.","usage":[101,21]}
 *
 * `detail` says what went wrong, or what came; `usage` is that of the answer as the client has it, prompt and
 * completion. Other lines are shown where something fails. Its environment says where to ask:
 *
 * - `BASE_URL`, `API_KEY`, `MODEL`: the gateway, `/v1` included, a key with credits, and the model
 * - `EMPTY_KEY`: a key of an account without credits
 * - `CONTINUE_URL`: to be fetched in the stream of `scenario:gate`, at its third word
 *
 * What its prompts can ask for is the table of `Scenario`.
 */
export interface ClientProgram {
  /** The library's name. */
  readonly name: string;
  readonly version: string;
  /** What the machine lacks for it, e.g. `go is not installed`: then its tests are skipped, and this is printed. */
  readonly missing?: string | undefined;
  /** Installs or builds what the command needs. */
  readonly prepare?: () => Promise<void>;
  readonly command: readonly [string, ...string[]];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** All checks that it prints. */
  readonly checks: readonly string[];
  /** How the gateway differs from the usual one. */
  readonly options?: Partial<ChatCompletionsRouterOptions>;
}

/** What a program printed of one check. */
interface Checked {
  readonly check: string;
  readonly ok: boolean;
  readonly detail?: string;
  readonly usage?: readonly [prompt: number, completion: number];
}

export const MODEL = 'acme/fast';
const PROGRAM_MS = 120_000;

/** Runs the program once, and makes a test of each of its checks, and tests of what it was charged. */
export function describeClient(client: ClientProgram): void {
  const { name, version, missing } = client;
  if (missing !== undefined) console.log(`skipped: ${name} ${version}: ${missing}`);
  describe.skipIf(missing !== undefined)(`${name} ${version}`, () => {
    let provider: ScriptedProvider;
    let gateway: Gateway;
    let run: ProgramRun;

    beforeAll(async () => {
      await client.prepare?.();
      provider = await startScriptedProvider();
      gateway = await startScriptedGateway(provider, client.options);
      run = await runProgram(client, await environmentOf(gateway, provider));
    });

    afterAll(async () => {
      await gateway?.close();
      await provider?.close();
    });

    it.each(client.checks)('%s', (check) => {
      const result = run.checked.get(check);
      expect(result, `\n${result?.detail ?? run.noise}`).toMatchObject({ check, ok: true });
    });

    it('prints no other checks, and ends well', () => {
      expect([...run.checked.keys()].toSorted()).toEqual([...client.checks].toSorted());
      expect(run.exitCode, run.noise).toBe(0);
    });

    it('shows usage as the provider told it', () => {
      const told = provider.served.flatMap(({ told: usage }) =>
        usage ? [[usage.prompt, usage.completion]] : [],
      );
      for (const { check, usage } of run.checked.values())
        if (usage) expect(told, check).toContainEqual(usage);
    });

    it('gets the words of a stream before the provider sends the next ones', () => {
      const passed = provider.served.filter(({ scenario }) => scenario === 'gate').map((each) => each.passed);
      expect(passed).not.toContain(false);
    });

    it('reaches the provider when it leaves', async () => {
      const endless = provider.served.filter(
        ({ scenario }) => scenario === 'endless' || scenario === 'silent',
      );
      await expect.poll(() => endless.map(({ left }) => left)).not.toContain(false);
    });

    it('is charged what the provider told, to the nano-dollar, and estimates within the hold', () =>
      expectCharges(gateway, provider.served));
  });
}

/** A gateway before a scripted provider: its client's mistakes and retries are seen, for it retries nothing itself. */
export function startScriptedGateway(
  provider: ScriptedProvider,
  options: Partial<ChatCompletionsRouterOptions> = {},
): Promise<Gateway> {
  return startGateway({
    retries: false,
    // It says in other answers that it reasons: those that are left would be read on for ever.
    provider: { baseURL: provider.baseURL, onDisconnect: 'abort' },
    ...options,
    hooks: [
      { upstreamHeaders: ({ requestId }) => ({ [REQUEST_ID_HEADER]: requestId }) },
      ...[options.hooks ?? []].flat(),
    ],
  });
}

async function environmentOf(gateway: Gateway, provider: ScriptedProvider): Promise<NodeJS.ProcessEnv> {
  const empty = await gateway.router.keys.create({ account: 'without-credits', name: 'test' });
  return {
    BASE_URL: gateway.baseURL,
    API_KEY: gateway.key,
    EMPTY_KEY: empty.key,
    MODEL,
    CONTINUE_URL: provider.continueURL,
  };
}

interface ProgramRun {
  readonly checked: ReadonlyMap<string, Checked>;
  readonly exitCode: number | null;
  /** What it printed beside its checks. */
  readonly noise: string;
}

/** @throws nothing of the program's: what it failed at shows as checks that never came */
async function runProgram(client: ClientProgram, environment: NodeJS.ProcessEnv): Promise<ProgramRun> {
  const [program, ...args] = client.command;
  const child = spawn(program, args, {
    cwd: client.cwd,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...client.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PROGRAM_MS,
    killSignal: 'SIGKILL',
  });
  const checked = new Map<string, Checked>();
  let noise = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (noise += text));
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (!line.startsWith('{"check"')) noise += `${line}\n`;
    else {
      const result = JSON.parse(line) as Checked;
      checked.set(result.check, result);
    }
  });
  const exitCode = await new Promise<number | null>((resolve) => {
    child.on('close', resolve);
    child.on('error', (error) => {
      noise += `${error.message}\n`;
      resolve(null);
    });
  });
  return { checked, exitCode, noise };
}

/** What the usage costs at the prices of `PRICING`, in nano-dollars: by hand, and not by the router's own sums. */
export function costOf({ prompt, completion, cached }: ToldUsage): bigint {
  return BigInt((prompt - cached) * 1000 + cached * 100 + completion * 3000);
}

/** Compares the books with what the provider knows of each request; waits until all is posted. */
export async function expectCharges(gateway: Gateway, served: readonly Served[]): Promise<void> {
  await expect.poll(async () => (await gateway.store.balance(gateway.account))?.held).toBe(0n);
  const lines = await gateway.store.journal(gateway.account, 0n, 1000);
  const charges = new Map(lines.filter(({ type }) => type === 's').map((line) => [line.id, line]));
  for (const { requestId = '', scenario, told, refused, left } of served) {
    const line = charges.get(requestId);
    charges.delete(requestId);
    const what = `${scenario}: ${requestId}`;
    if (refused) {
      expect(line, what).toBeUndefined();
      continue;
    }
    const amount = line?.amount ?? 0n;
    if (told && !left) expect(amount, what).toBe(costOf(told));
    else {
      expect(amount, what).toBeGreaterThan(0n);
      expect(amount, what).toBeLessThanOrEqual(line?.hold ?? 0n);
    }
  }
  expect([...charges.keys()], 'charges for what no provider served').toEqual([]);
  const sumOf = (of: string): bigint =>
    lines.filter(({ type }) => type === of).reduce((sum, { amount }) => sum + amount, 0n);
  expect((await gateway.store.balance(gateway.account))?.available).toBe(sumOf('g') - sumOf('s'));
}
