import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import type { LedgerEvent, Settled } from '../../src/index.ts';
import type { Control, SoakGatewayOptions } from '../processes/soak-gateway.ts';

/** What a gateway's hooks told of a settled request. */
export type SettledLine = Pick<
  Settled,
  'requestId' | 'charged' | 'writtenOff' | 'voided' | 'ending' | 'usageSource'
>;

/** One process of a gateway. */
export interface GatewayRun {
  /** Place and number: `1.3` is the third process of the second place. */
  readonly name: string;
  readonly place: number;
  readonly port: number;
  readonly startedAt: number;
  readonly settled: Map<string, SettledLine>;
  readonly events: { readonly at: number; readonly event: LedgerEvent }[];
  readonly errors: { readonly at: number; readonly message: string }[];
  /** By SIGKILL. */
  killedAt?: number;
  /** By SIGTERM, or by its own fault. */
  endedAt?: number;
}

type Line =
  | { readonly say: 'listening'; readonly port: number }
  | { readonly say: 'request'; readonly requestId: string; readonly clientRequestId?: string }
  | ({ readonly say: 'settled' } & SettledLine)
  | { readonly say: 'error'; readonly message: string }
  | { readonly say: 'event'; readonly event: LedgerEvent };

const SCRIPT = join(import.meta.dirname, '../processes/soak-gateway.ts');

/** Where one gateway after the other runs, always with the same options. */
export class GatewayPlace {
  readonly runs: GatewayRun[] = [];
  readonly #place: number;
  readonly #options: SoakGatewayOptions;
  readonly #onRequest: (requestId: string, clientRequestId: string, run: GatewayRun) => void;
  #child: ChildProcess | undefined;
  #closed: Promise<unknown> = Promise.resolve();
  #run: GatewayRun | undefined;
  #isRemoved = false;

  constructor(
    place: number,
    options: SoakGatewayOptions,
    onRequest: (requestId: string, clientRequestId: string, run: GatewayRun) => void,
  ) {
    this.#place = place;
    this.#options = options;
    this.#onRequest = onRequest;
  }

  get place(): number {
    return this.#place;
  }

  /** The gateway that is there; undefined while there is none. */
  get run(): GatewayRun | undefined {
    return this.#run;
  }

  async start(): Promise<void> {
    const child = spawn(process.execPath, ['--no-warnings', SCRIPT, JSON.stringify(this.#options)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child = child;
    this.#closed = once(child, 'close');
    const listening = Promise.withResolvers<GatewayRun>();
    this.#closed.then(
      () => listening.reject(new Error('A gateway ended before it listened')),
      listening.reject,
    );
    let run: GatewayRun | undefined;
    createInterface(child.stdout).on('line', (text) => {
      const line = JSON.parse(text) as Line;
      if (line.say === 'listening') {
        run = this.#newRun(line.port);
        listening.resolve(run);
      } else if (run) this.#note(run, line);
    });
    this.#run = await listening.promise;
    child.once('exit', () => {
      if (!run || this.#isRemoved) return;
      run.endedAt ??= Date.now();
      if (this.#run === run) this.#run = undefined;
    });
  }

  /** Ends it as a crash would. */
  async kill(): Promise<void> {
    if (this.#run) this.#run.killedAt = Date.now();
    this.#child?.kill('SIGKILL');
    await this.#closed;
  }

  /** Ends it as a deployment would. */
  async terminate(): Promise<void> {
    this.#child?.kill('SIGTERM');
    await this.#closed;
  }

  /** Ends it after all was seen: of that nothing is noted. */
  async remove(): Promise<void> {
    this.#isRemoved = true;
    this.#child?.kill('SIGKILL');
    await this.#closed;
  }

  stop(): void {
    this.#child?.kill('SIGSTOP');
  }

  continue(): void {
    this.#child?.kill('SIGCONT');
  }

  /** @throws if it isn't there, doesn't answer in time, or refuses, with its `code` */
  async control<T>(command: Control, timeoutMs = 5000): Promise<T> {
    if (!this.#run) throw new Error('There is no gateway');
    const response = await fetch(`http://127.0.0.1:${this.#run.port}/control`, {
      method: 'POST',
      body: JSON.stringify(command),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const answer = (await response.json()) as { result: T; message: string; code: string };
    if (!response.ok) throw Object.assign(new Error(answer.message), { code: answer.code });
    return answer.result;
  }

  #newRun(port: number): GatewayRun {
    const run: GatewayRun = {
      name: `${this.#place}.${this.runs.length + 1}`,
      place: this.#place,
      port,
      startedAt: Date.now(),
      settled: new Map(),
      events: [],
      errors: [],
    };
    this.runs.push(run);
    return run;
  }

  #note(run: GatewayRun, line: Exclude<Line, { say: 'listening' }>): void {
    const at = Date.now();
    if (line.say === 'request') this.#onRequest(line.requestId, line.clientRequestId ?? '', run);
    if (line.say === 'settled') run.settled.set(line.requestId, line);
    if (line.say === 'event') run.events.push({ at, event: line.event });
    if (line.say === 'error') run.errors.push({ at, message: line.message });
  }
}
