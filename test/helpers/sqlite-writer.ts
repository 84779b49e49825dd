import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

import { expect } from 'vitest';

import type { JournalLine } from '../../src/ledger/contract/ledger-store.ts';
import { SqliteStore } from '../../src/ledger/stores/sqlite/sqlite-store.ts';

/** A process that uses a ledger file: see test/processes/sqlite-writer.ts. */
export interface Writer {
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
  /** All that it said so far. */
  readonly lines: string[];
  /** Resolves to the first line that begins with a word. */
  readonly heard: (word: string) => Promise<string>;
}

export function startWriter(task: string, file: string, prefix: string[] = []): Writer {
  const script = join(import.meta.dirname, '../processes/sqlite-writer.ts');
  const [command, ...args] = [...prefix, process.execPath, '--no-warnings', script, task, file];
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines: string[] = [];
  const reader = createInterface(child.stdout).on('line', (line) => lines.push(line));
  const heard = async (word: string): Promise<string> => {
    for (;;) {
      const line = lines.find((each) => each.startsWith(word));
      if (line !== undefined) return line;
      if (child.exitCode !== null) throw new Error(`The writer ended without ${word}`);
      await Promise.race([once(reader, 'line'), once(child, 'close')]);
    }
  };
  return { child, lines, heard };
}

/** Looks for what writers acknowledged, and at the invariants that need no model. */
export async function hasAll(file: string, acknowledged: readonly string[]): Promise<void> {
  const store = new SqliteStore(file);
  const state = (await store.snapshot('acme'))!;
  const lines = await store.journal('acme', 0n, Infinity);
  await store.close();

  const posted = new Map(lines.map((line) => [line.id, line]));
  for (const line of acknowledged) {
    const [what, id = '', amount] = line.split(' ');
    if (what === 'grant') expect(posted.get(id), line).toMatchObject({ type: 'g', amount: 20n });
    if (what === 'refused') expect(posted.has(id), line).toBe(false);
    if (what !== 'settle') continue;
    const { amount: charged = 0n, writtenOff = 0n } = posted.get(id) ?? {};
    expect(charged + writtenOff, line).toBe(BigInt(amount ?? 0));
  }

  // I1, conservation.
  expect(state.granted).toBe(state.available + state.held + state.spent + state.expired);
  // I2, holds.
  const running = state.requests.filter((request) => request.state === 'held');
  expect(sum(running)).toBe(state.held);
  for (const key of state.keys) {
    const own = running.filter((request) => request.key === key.key);
    expect([sum(own), own.length]).toEqual([key.held, key.running]);
  }
  // I3, once: nothing was posted twice, and all that is final was posted.
  expect(posted.size).toBe(lines.length);
  for (const { id, state: final, amount } of state.requests) {
    expect(posted.get(id)?.amount, id).toBe(final === 'held' ? undefined : amount);
  }
  // I6, books.
  expect(lines.map((line) => line.seq)).toEqual(lines.map((_, n) => BigInt(n + 1)));
  expect(state.seq).toBe(BigInt(lines.length));
  const granted = (line: JournalLine): boolean => line.type === 'g';
  expect(sum(lines.filter(granted))).toBe(state.granted);
  expect(sum(lines.filter((line) => !granted(line)))).toBe(state.spent);
  expect(lines.reduce((total, line) => total + (line.writtenOff ?? 0n), 0n)).toBe(state.writtenOff);
}

function sum(amounts: readonly { readonly amount: bigint }[]): bigint {
  return amounts.reduce((total, { amount }) => total + amount, 0n);
}
