import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import type { GatewayOptions } from '../processes/gateway.ts';

/** A gateway in a process of its own. */
export interface GatewayProcess {
  /** Up to and including the mount. */
  readonly baseURL: string;
  readonly key: string;
  readonly pid: number;
  /** What `onSettled` was told: request id -> charge, as a decimal string. */
  readonly settled: ReadonlyMap<string, string>;
  /** What `onLedgerEvent` was told. */
  readonly events: readonly LedgerEvent[];
  readonly errors: readonly string[];
  /** Ends it as a power cut would. */
  kill(): Promise<void>;
  /** Ends it as a deployment would: resolves once every charge is posted or given up. */
  terminate(): Promise<void>;
}

/**
 * Resolves when it listens.
 *
 * @param onSpawned - is given at once what kills it, however far it comes
 */
export async function spawnGateway(
  options: GatewayOptions,
  onSpawned: (kill: () => Promise<void>) => void = () => {},
): Promise<GatewayProcess> {
  const script = join(import.meta.dirname, '../processes/gateway.ts');
  const child = spawn(process.execPath, ['--no-warnings', script, JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const closed = once(child, 'close');
  const kill = (): Promise<void> => end(child, 'SIGKILL', closed);
  onSpawned(kill);
  const settled = new Map<string, string>();
  const events: LedgerEvent[] = [];
  const errors: string[] = [];
  const listening = Promise.withResolvers<readonly string[]>();
  closed.then(() => listening.reject(new Error('The gateway ended before it listened')), listening.reject);
  createInterface(child.stdout).on('line', (line) => {
    const [word = '', ...rest] = line.split(' ');
    if (word === 'listening') listening.resolve(rest);
    if (word === 'settled') settled.set(rest[0] ?? '', rest[1] ?? '');
    if (word === 'event') events.push(JSON.parse(rest.join(' ')) as LedgerEvent);
    if (word === 'error') errors.push(JSON.parse(rest.join(' ')) as string);
  });
  const [port = '', key = ''] = await listening.promise;
  return {
    baseURL: `http://127.0.0.1:${port}/v1`,
    key,
    pid: child.pid ?? 0,
    settled,
    events,
    errors,
    kill,
    terminate: () => end(child, 'SIGTERM', closed),
  };
}

/** @param closed - resolves when it has ended and all that it said was read */
async function end(child: ChildProcess, signal: NodeJS.Signals, closed: Promise<unknown>): Promise<void> {
  child.kill(signal);
  await closed;
}
