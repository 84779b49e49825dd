import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { LedgerEvent } from '../../../src/ledger/contract/events.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { Outbox } from '../../../src/ledger/reliability/outbox.ts';
import { type OutboxFiles, OutboxFolder } from '../../../src/ledger/reliability/outbox-files.ts';
import {
  doneLine,
  type Intent,
  intentLine,
  readLines,
} from '../../../src/ledger/reliability/outbox-lines.ts';
import { ReliableStore } from '../../../src/ledger/reliability/reliable-store.ts';
import { RequestIds } from '../../../src/ledger/contract/request-ids.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { MAX, requestId, USAGE } from '../../contracts/ledger-fixture.ts';

const { DatabaseSync } = process.getBuiltinModule('node:sqlite');
const folders = mkdtempSync(join(tmpdir(), 'ccr-outbox-'));
afterAll(() => rmSync(folders, { recursive: true }));

const { setTimeout: realTimeout } = globalThis;
const realPause = (): Promise<void> => new Promise((resolve) => realTimeout(resolve, 5));
const newFolder = (): string => mkdtempSync(join(folders, 'outbox-'));

describe('lines of an outbox', () => {
  const intents = [1, 2, 3, 4].map((n) => intent(n));
  const bytes = Buffer.concat([...intents.map(intentLine), intentLine(release(5)), doneLine([requestId(2)])]);
  const waiting = [intent(1), intent(3), intent(4), release(5)];

  it('say what waits, to the nano-dollar', () => {
    expect(readLines(bytes)).toEqual({ intents: waiting, damaged: 0 });
    const most = intent(1, MAX);
    expect(readLines(intentLine(most)).intents).toEqual([most]);
  });

  it('say it also where the host has taught JSON what a bigint is', () => {
    const prototype = BigInt.prototype as { toJSON?: () => string };
    prototype.toJSON = () => 'a bigint';
    try {
      expect(readLines(intentLine(intent(1))).intents).toEqual([intent(1)]);
    } finally {
      delete prototype.toJSON;
    }
  });

  it('keep any text as it is', () => {
    const odd = { ...settlement(1), model: 'a b|c\n"\\ é 漢 \u{1f600} - 12345678 ["settle"' };
    expect(readLines(intentLine({ type: 'settle', command: odd })).intents).toEqual([
      { type: 'settle', command: odd },
    ]);
  });

  it('are read up to the last whole one wherever the file ends', () => {
    const ends = bytes.toString('latin1').split('\n').length - 1;
    expect(ends).toBe(6);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const part = bytes.subarray(0, cut);
      const whole = part.toString('latin1').split('\n').length - 1;
      // A line without its end is as good as whole.
      const seen = bytes[cut] === 0x0a ? whole + 1 : whole;
      const expected = seen === 6 ? waiting : [...intents, release(5)].slice(0, seen);
      expect(readLines(part), `cut at byte ${cut}`).toEqual({ intents: expected, damaged: 0 });
    }
  });

  it('lose nothing but the one in which a bit has flipped, and never change', () => {
    const all = [...intents, release(5)].map((each) => JSON.stringify(each, plainly));
    for (let at = 0; at < bytes.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const flipped = Buffer.from(bytes);
        flipped[at]! ^= 1 << bit;
        const { intents: read, damaged } = readLines(flipped);
        const texts = read.map((each) => JSON.stringify(each, plainly));
        for (const text of texts) expect(all).toContain(text);
        const lost = waiting.filter((each) => !texts.includes(JSON.stringify(each, plainly)));
        expect(lost.length, `bit ${bit} of byte ${at}`).toBeLessThan(2);
        if (lost.length > 0) expect(damaged, `bit ${bit} of byte ${at}`).toBeGreaterThan(0);
      }
    }
  });

  it('after garbage of any kind are still found', () => {
    const garbage = [Buffer.alloc(4096), Buffer.from('\n\n{}\n'), bytes.subarray(0, 100)];
    for (const each of garbage) {
      expect(readLines(Buffer.concat([each, Buffer.from('\n'), bytes])).intents).toEqual(waiting);
    }
  });
});

describe('an outbox', () => {
  // What is written gets its time from the kernel.
  const clock = { now: 0 };

  beforeEach(() => {
    clock.now = Date.now();
    vi.useFakeTimers({
      now: clock.now,
      toFake: ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval', 'Date'],
    });
  });

  afterEach(() => vi.useRealTimers());

  it('has an intent on disk before `append` returns', () => {
    const { outbox, folder } = open();
    outbox.append(intent(1));
    expect(contents(folder)).toEqual([intent(1)]);
  });

  it('has nothing left of what is done, nor a file once it is closed', async () => {
    const { outbox, folder } = open();
    outbox.append(intent(1));
    outbox.append(intent(2));
    outbox.done(requestId(1));
    await pass(100);
    expect(contents(folder)).toEqual([intent(2)]);
    outbox.done(requestId(2));
    await outbox.close();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('leaves what waits when it is closed to the next one, at once', async () => {
    const { outbox, folder } = open();
    outbox.append(intent(1));
    outbox.append(release(2));
    await outbox.close();
    const next = open(folder);
    expect(next.leftovers).toEqual([intent(1), release(2)]);
    await next.outbox.close();
    expect(open(folder).leftovers).toHaveLength(2);
  });

  it('takes over what a process left that gave no sign of life for 10 seconds, and no other', async () => {
    const folder = newFolder();
    const live = open(folder);
    live.outbox.append(intent(1));
    writeFileSync(join(folder, 'dead.outbox'), intentLine(intent(2)));
    const other = open(folder);
    const taken = (): Intent[] => [...live.leftovers, ...other.leftovers];
    await pass(9000);
    expect(taken()).toEqual([]);
    await pass(3000);
    expect(taken()).toEqual([intent(2)]);
    await pass(60_000);
    expect(taken()).toHaveLength(1);
  });

  it.each([
    ['ahead', 3_600_000],
    ['behind', -3_600_000],
  ])('is left alone while its owner lives, whose clock is %s', async (_, offset) => {
    const folder = newFolder();
    const live = open(folder, (files) => ({
      ...wrap(files),
      touch: (name, time) => files.touch(name, time + offset),
    }));
    live.outbox.append(intent(1));
    const other = open(folder);
    await pass(60_000);
    expect(other.leftovers).toEqual([]);
  });

  it('is one of many that look at the same leftover: one of them takes it', async () => {
    const folder = newFolder();
    const outboxes = [open(folder), open(folder), open(folder)];
    for (let n = 0; n < 50; n++) {
      writeFileSync(join(folder, `dead-${n}.outbox`), intentLine(intent(n)));
      touch(join(folder, `dead-${n}.outbox`), 0);
    }
    await pass(2000);
    expect(outboxes.flatMap(({ leftovers }) => leftovers)).toHaveLength(50);
  });

  it('of a process that stood still is written again when another took it', async () => {
    const { outbox, folder } = open();
    outbox.append(intent(1));
    clock.now += 6000;
    const other = new OutboxFolder(folder);
    const taken = other.claim(readdirSync(folder)[0]!);
    outbox.append(intent(2));
    other.remove(taken!);
    // The first is delivered by both, and posted once.
    expect(contents(folder)).toEqual([intent(1), intent(2)]);
  });

  it('keeps what it takes over during an fsync until the next one', async () => {
    const folder = newFolder();
    const syncs: (() => void)[] = [];
    const { outbox, leftovers } = open(folder, (files) => ({
      ...wrap(files),
      create: () => ({ ...files.create(), sync: () => new Promise((resolve) => syncs.push(resolve)) }),
    }));
    outbox.append(intent(1));
    await pass(100);
    expect(syncs).toHaveLength(1);
    writeFileSync(join(folder, 'dead.outbox'), intentLine(intent(2)));
    touch(join(folder, 'dead.outbox'), 0);
    await pass(2000);
    expect(leftovers).toEqual([intent(2)]);
    syncs[0]!();
    await pass(100);
    expect(syncs).toHaveLength(2);
    expect(readdirSync(folder)).toHaveLength(2);
    syncs[1]!();
    await pass(50);
    expect(readdirSync(folder)).toHaveLength(1);
    expect(contents(folder)).toEqual([intent(1), intent(2)]);
  });

  it('tells of lines that it can not read, takes the others and keeps the file', () => {
    const folder = newFolder();
    const lines = [intent(1), intent(2), intent(3)].map(intentLine);
    lines[1]![20]! ^= 1;
    writeFileSync(join(folder, 'dead.outbox'), Buffer.concat(lines));
    touch(join(folder, 'dead.outbox'), 0);
    const { leftovers, events } = open(folder);
    expect(leftovers).toEqual([intent(1), intent(3)]);
    expect(events).toMatchObject([{ type: 'outbox_damaged', lines: 1 }]);
    const [event] = events;
    expect(readFileSync(event?.type === 'outbox_damaged' ? event.file : '')).toEqual(Buffer.concat(lines));
  });

  it('does not believe a file again whose fsync failed', async () => {
    const folder = newFolder();
    let broken = true;
    const { outbox, events } = open(folder, (files) => ({
      ...wrap(files),
      create: () => {
        const file = files.create();
        const sync = (): Promise<void> =>
          broken ? Promise.reject(new Error('EIO: i/o error')) : file.sync();
        return { ...file, sync };
      },
    }));
    outbox.append(intent(1));
    const [before] = readdirSync(folder);
    await pass(100);
    expect(events).toEqual([{ type: 'outbox_failed', message: 'EIO: i/o error' }]);
    expect(outbox.failure?.message).toBe('EIO: i/o error');
    outbox.append(intent(2));
    await pass(5000);
    expect(events).toHaveLength(1);
    expect(readdirSync(folder).length).toBeLessThan(4);
    broken = false;
    await pass(1200);
    await expect.poll(() => outbox.failure).toBeUndefined();
    expect(events.at(-1)).toEqual({ type: 'outbox_recovered' });
    expect(readdirSync(folder)).toHaveLength(1);
    expect(readdirSync(folder)).not.toContain(before);
    expect(contents(folder)).toEqual([intent(1), intent(2)]);
  });

  it('goes on in a new folder when its own is removed', async () => {
    const { outbox, folder, events } = open();
    outbox.append(intent(1));
    rmSync(folder, { recursive: true });
    await pass(2100);
    expect(contents(folder)).toEqual([intent(1)]);
    expect(events).toEqual([]);
  });

  it('stays small, however much goes through it', async () => {
    const { outbox, folder } = open();
    outbox.append(intent(0));
    for (let n = 1; n < 10_000; n++) {
      outbox.append({ type: 'settle', command: { ...settlement(n), model: 'x'.repeat(2500) } });
      outbox.done(requestId(n));
      if (n % 1000 === 0) await pass(60);
    }
    await until(() => contents(folder).length === 1);
    const sizes = readdirSync(folder).map((name) => statSync(join(folder, name)).size);
    expect(Math.max(...sizes)).toBeLessThan(17 * 1024 * 1024);
    expect(contents(folder)).toEqual([intent(0)]);
    outbox.done(requestId(0));
    await until(() => statSync(join(folder, readdirSync(folder)[0]!)).size === 0);
  });

  it('is not written anew for each intent while more than a file waits', () => {
    let written = 0;
    const { outbox } = open(newFolder(), (files) => ({
      ...wrap(files),
      create: () => ({ ...files.create(), write: (bytes) => void (written += bytes.length) }),
    }));
    const line = { ...settlement(0), model: 'x'.repeat(100_000) };
    for (let n = 0; n < 500; n++) {
      outbox.append({ type: 'settle', command: { ...line, requestId: requestId(n) } });
    }
    // 50 MB wait: each was written once, and again where a file began at 16 and at 32 MiB.
    expect(written).toBeGreaterThan(50_000_000);
    expect(written).toBeLessThan(110_000_000);
  });

  it('puts what can not be posted any more where an operator finds it', async () => {
    const folder = newFolder();
    const store = new MemoryStore({ now: () => clock.now });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    // Both have ids of months ago.
    writeFileSync(
      join(folder, 'dead.outbox'),
      Buffer.concat([intentLine(intent(1)), intentLine(intent(2, 7n))]),
    );
    touch(join(folder, 'dead.outbox'), 0);
    const events: LedgerEvent[] = [];
    const reliable = reliableOver(store, folder, events);
    await reliable.balance('acme');
    const file = join(folder, 'dead-letters.jsonl');
    await expect.poll(() => events).toHaveLength(2);
    expect(events[1]).toEqual({ type: 'dead_letter', account: 'acme', requestId: requestId(2), file });
    const letters = readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
    expect(letters[1]).toMatchObject({ type: 'settle', command: { requestId: requestId(2), amount: '7' } });
    expect(await reliable.balance('acme')).toMatchObject({ spent: 0n });
    await vi.advanceTimersByTimeAsync(100);
    await reliable.close();
    expect(readdirSync(folder)).toEqual(['dead-letters.jsonl']);
  });

  it.each(['this process', 'an earlier one'])(
    'has no dead letter of a hold of %s that is voided: another has charged the work',
    async (whose) => {
      const folder = newFolder();
      const store = new MemoryStore({ now: () => clock.now });
      await store.grant({ account: 'acme', id: 'g1', amount: 100n });
      const command = { ...settlement(1), requestId: new RequestIds(() => clock.now - 60_000).next() };
      await store.void(command);
      const isLeft = whose === 'an earlier one';
      if (isLeft) {
        writeFileSync(join(folder, 'dead.outbox'), intentLine({ type: 'settle', command }));
        touch(join(folder, 'dead.outbox'), 0);
      }
      const events: LedgerEvent[] = [];
      const reliable = reliableOver(store, folder, events);
      await reliable.ready();
      if (!isLeft) expect(await reliable.settle(command)).toMatchObject({ code: 'voided' });
      await until(() => contents(folder).length === 0);
      expect(events).toEqual([]);
      await reliable.close();
      expect(readdirSync(folder)).toEqual([]);
    },
  );

  it('posts what an earlier process left, though our own clock is a day ahead', async () => {
    const folder = newFolder();
    const store = new MemoryStore({ now: () => clock.now });
    await store.grant({ account: 'acme', id: 'g1', amount: 100n });
    const ours = new RequestIds(() => clock.now - 60_000).next();
    const left: Intent = { type: 'settle', command: { ...settlement(1), requestId: ours } };
    writeFileSync(join(folder, 'dead.outbox'), intentLine(left));
    touch(join(folder, 'dead.outbox'), 0);
    const events: LedgerEvent[] = [];
    const reliable = new ReliableStore({
      store,
      tell: (event) => events.push(event),
      outbox: new OutboxFolder(folder),
      now: () => clock.now + 86_400_000,
    });
    await reliable.balance('acme');
    await expect.poll(async () => (await store.balance('acme'))?.spent).toBeGreaterThan(0n);
    expect(events).toEqual([]);
    await reliable.close();
  });

  function open(folder = newFolder(), change: (files: OutboxFiles) => OutboxFiles = (files) => files) {
    const events: LedgerEvent[] = [];
    const leftovers: Intent[] = [];
    const files = change(new OutboxFolder(folder));
    const outbox = new Outbox({ files, now: () => clock.now, tell: (event) => events.push(event) });
    outbox.open((leftover) => leftovers.push(leftover));
    return { outbox, folder, events, leftovers };
  }

  function reliableOver(store: MemoryStore, folder: string, events: LedgerEvent[]): ReliableStore {
    return new ReliableStore({
      store,
      tell: (event) => events.push(event),
      now: () => clock.now,
      outbox: new OutboxFolder(folder),
    });
  }

  /** Lets time pass, and the disk do its work, until something is so. */
  async function until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      await pass(50);
      await realPause();
    }
  }

  /** Time passes, for files too. */
  async function pass(ms: number): Promise<void> {
    for (const end = clock.now + ms; clock.now < end;) {
      const step = Math.min(50, end - clock.now);
      clock.now += step;
      await vi.advanceTimersByTimeAsync(step);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
});

describe('processes with an outbox', () => {
  it('that are killed leave their charges to the next, which posts them once', async () => {
    const folder = newFolder();
    const ledger = join(folder, 'ledger.db');
    const store = new SqliteStore(ledger);
    await store.grant({ account: 'acme', id: 'g1', amount: 100_000n });
    const { child, lines, heard } = startWriter('wait', ledger, folder);
    await heard('admitted');
    const other = new DatabaseSync(ledger);
    other.exec('BEGIN IMMEDIATE');
    child.stdin.end('go');
    await heard('waiting');
    child.kill('SIGKILL');
    await once(child, 'close');
    other.exec('COMMIT');
    other.close();
    const ended = lines.filter((line) => line.startsWith('ended'));
    expect(ended).toHaveLength(1000);
    expect(await store.balance('acme')).toMatchObject({ spent: 0n, held: 30n });

    const events: LedgerEvent[] = [];
    const next = [1, 2].map(
      () =>
        new ReliableStore({
          store: new SqliteStore(ledger),
          tell: (event) => events.push(event),
          outbox: new OutboxFolder(folder),
        }),
    );
    for (const each of next) await each.balance('acme');
    // Its process is seen to be gone: nobody waits until its signs of life are missed.
    await expect.poll(() => store.balance('acme')).toMatchObject({ spent: 1003n, held: 0n });
    const journal = await store.journal('acme', 0n, 10_000);
    const posted = journal
      .filter((line) => line.type !== 'g')
      .map((line) => `ended ${line.id} ${line.amount}`);
    expect(posted.toSorted()).toEqual(ended.toSorted());
    for (const each of next) await each.close();
    expect(readdirSync(folder).filter((name) => name.endsWith('.outbox'))).toEqual([]);
    expect(events).toEqual([]);
    await store.close();
  });

  it.skipIf(process.platform === 'win32')(
    'refuse requests while their disk is full, and lose no charge',
    async () => {
      const lines = await fillDisk();
      expect(lines.filter((line) => line === 'refused no')).toHaveLength(3);
      const ended = Number(lines.find((line) => line.startsWith('ended'))?.split(' ')[1]);
      expect(ended).toBeGreaterThan(50);
      expect(ended).toBeLessThan(300);
      expect(lines.at(-1)).toBe(`balance ${ended} 10`);
      expect(lines.filter((line) => line.startsWith('event outbox'))).toEqual(
        expect.arrayContaining(['event outbox_failed', 'event outbox_recovered']),
      );
    },
  );

  async function fillDisk(): Promise<string[]> {
    // A limit to the size of files, in blocks of 512 or 1024 bytes, fails as a full disk does.
    const limited = ['sh', '-c', 'ulimit -f 2000; exec "$@"', 'sh'];
    const { child, lines } = startWriter('fill', '', newFolder(), limited);
    await once(child, 'close');
    return lines;
  }
});

interface Writer {
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
  readonly lines: string[];
  readonly heard: (word: string) => Promise<string>;
}

function startWriter(task: string, ledger: string, folder: string, prefix: string[] = []): Writer {
  const script = join(import.meta.dirname, '../../processes/outbox-writer.ts');
  const [command, ...args] = [...prefix, process.execPath, '--no-warnings', script, task, ledger, folder];
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  const lines: string[] = [];
  const reader = createInterface(child.stdout).on('line', (line) => lines.push(line));
  const heard = async (word: string): Promise<string> => {
    for (;;) {
      const line = lines.find((each) => each.startsWith(word));
      if (line !== undefined) return line;
      if (child.exitCode !== null) throw new Error(`The writer ended without ${word}`);
      await Promise.race([once(reader, 'line'), closed]);
    }
  };
  return { child, lines, heard };
}

function settlement(n: number, amount = 12n): Extract<Intent, { type: 'settle' }>['command'] {
  return {
    account: 'acme',
    requestId: requestId(n),
    amount,
    key: 'k1',
    model: 'some/model',
    usage: USAGE,
    force: true,
  };
}

function intent(n: number, amount = 12n): Intent {
  return { type: 'settle', command: settlement(n, amount) };
}

function release(n: number): Intent {
  return { type: 'void', command: { account: 'acme', requestId: requestId(n) } };
}

function plainly(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

/** What waits in all outboxes of a folder. */
function contents(folder: string): Intent[] {
  return readdirSync(folder).flatMap((name) => [...readLines(readFileSync(join(folder, name))).intents]);
}

function touch(path: string, time: number): void {
  utimesSync(path, time / 1000, time / 1000);
}

/** Methods of a class, to be spread. */
function wrap(files: OutboxFiles): OutboxFiles {
  return {
    create: () => files.create(),
    list: () => files.list(),
    claim: (name) => files.claim(name),
    touch: (name, time) => files.touch(name, time),
    read: (name) => files.read(name),
    remove: (name) => files.remove(name),
    setAside: (name) => files.setAside(name),
    addDeadLetter: (line) => files.addDeadLetter(line),
  };
}
