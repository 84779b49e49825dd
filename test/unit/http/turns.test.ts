import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { inTurns } from '../../../src/http/body-chunks.ts';
import { type TurnReader, Turns } from '../../../src/http/turns.ts';

/** What a socket gives at once. */
const CHUNK = 65_536;

let now = 0;
/** Bytes that were looked at in each turn of the event loop. */
let perTurn: number[] = [];
let watching: NodeJS.Immediate;

beforeEach(() => {
  now = 0;
  perTurn = [0];
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  watching = setImmediate(function next() {
    perTurn.push(0);
    watching = setImmediate(next);
  });
});

afterEach(() => {
  clearImmediate(watching);
  vi.restoreAllMocks();
});

/** Looks at bytes, each of which takes so many ns. */
function look(part: Uint8Array, nsPerByte: number): void {
  now += (part.length * nsPerByte) / 1e6;
  perTurn[perTurn.length - 1]! += part.length;
}

/** Bytes in which no line ends. */
function chunkOf(length: number, from = 0): Buffer {
  return Buffer.from(Array.from({ length }, (_, i) => 11 + ((from + i) % 241)));
}

/** A body that is read in turns, and what came of it. */
function startTurns(
  nsPerByte: number,
  mayGoOn: TurnReader['canContinue'] = () => true,
): {
  body: PassThrough;
  turns: Turns;
  seen: () => Buffer;
  parts: readonly Buffer[];
  passes: () => number;
} {
  const body = new PassThrough({ highWaterMark: 4 * CHUNK });
  const parts: Buffer[] = [];
  let passes = 0;
  const turns = new Turns(body, {
    inspect: (part) => {
      look(part, nsPerByte);
      parts.push(part);
    },
    forward: () => {
      passes += 1;
    },
    canContinue: mayGoOn,
  });
  body.on('data', (chunk: Buffer) => {
    turns.take(chunk);
  });
  return { body, turns, seen: () => Buffer.concat(parts), parts, passes: () => passes };
}

async function untilOver({ body, turns }: { body: PassThrough; turns: Turns }): Promise<void> {
  if (!body.readableEnded) await once(body, 'end');
  await new Promise<void>((resolve) => {
    turns.end(resolve);
  });
}

describe('a body', () => {
  it.each([
    ['fast', 1, CHUNK],
    ['slow, as hostile events are', 100, 4096],
    // What is left of a chunk, and the beginning of the next.
    ['slower than anything', 10_000, 4096],
  ])('that is %s to look at (%d ns a byte) has at most %d bytes of a turn', async (_how, nsPerByte, most) => {
    const running = startTurns(nsPerByte);
    const chunks = [chunkOf(CHUNK), chunkOf(CHUNK, 7), chunkOf(10_000, 9)];
    for (const chunk of chunks) running.body.write(chunk);
    running.body.end();
    await untilOver(running);
    expect(running.seen().equals(Buffer.concat(chunks))).toBe(true);
    expect(Math.max(...perTurn)).toBe(most);
  });

  it('that grows slow within a chunk has little more than twice the time of a turn', async () => {
    const running = startTurns(0);
    let most = 0;
    let began = 0;
    const turns = new Turns(running.body, {
      inspect: (part) => {
        // Text first, then what takes a hundred times as long.
        now += ((part[0] === 0 ? 0.3 : 30) * part.length) / 1e6;
        most = Math.max(most, now - began);
      },
      forward: () => {
        began = now;
      },
      canContinue: () => true,
    });
    running.body.removeAllListeners('data').on('data', (chunk: Buffer) => {
      turns.take(chunk);
    });
    running.body.end(Buffer.concat([Buffer.alloc(32_768), Buffer.alloc(32_768, 1)]));
    await untilOver({ body: running.body, turns });
    // 16 KiB of the slow kind are looked at before the clock says so.
    expect(most).toBeLessThan(0.52);
  });

  it('is cut after a line, where one ends in the second half of a part', async () => {
    const running = startTurns(1);
    const line = Buffer.from(`${'x'.repeat(299)}\n`);
    running.body.end(Buffer.concat(Array.from({ length: 100 }, () => line)));
    await untilOver(running);
    expect(running.seen()).toHaveLength(30_000);
    expect(running.parts.map((part) => part.length)).toEqual([1800, 1800, 3600, 7200, 14_400, 1200]);
  });

  it('is not cut after a line that ends before that', async () => {
    const running = startTurns(1);
    const bytes = chunkOf(4096);
    bytes[1022] = 0x0a;
    running.body.end(bytes);
    await untilOver(running);
    expect(running.parts.map((part) => part.length)).toEqual([2048, 2048]);
  });

  it('is passed on once a chunk, where that takes no longer than a turn', async () => {
    const running = startTurns(1);
    for (let i = 0; i < 3; i++) {
      running.body.write(chunkOf(20_000));
      await turn();
    }
    expect(running.passes()).toBe(3);
  });

  it('of small chunks gives way once in 4 KiB', async () => {
    const running = startTurns(1);
    const pause = vi.spyOn(running.body, 'pause');
    for (let i = 0; i < 300; i++) running.body.write(chunkOf(200));
    running.body.end();
    await untilOver(running);
    expect(running.passes()).toBe(300);
    expect(pause).toHaveBeenCalledTimes(14);
  });

  it('that was stopped with part of a chunk unread is over when it ends', async () => {
    const running = startTurns(10_000);
    running.body.write(chunkOf(CHUNK));
    expect(running.turns.isBehind).toBe(true);
    running.turns.stop();
    await new Promise<void>((resolve) => {
      running.turns.end(resolve);
    });
    expect(running.seen().length).toBe(CHUNK);
  });

  it('waits with the rest of a chunk while it may not go on', async () => {
    let mayGoOn = true;
    const running = startTurns(10_000, () => mayGoOn);
    running.body.write(chunkOf(CHUNK));
    expect(running.body.isPaused()).toBe(true);
    mayGoOn = false;
    running.body.end(chunkOf(100));
    for (let i = 0; i < 5; i++) await turn();
    expect(running.seen()).toHaveLength(2048);
    mayGoOn = true;
    running.turns.resume();
    await untilOver(running);
    expect(running.seen()).toHaveLength(CHUNK + 100);
  });

  it('that is over is so once the rest of it was looked at', async () => {
    const running = startTurns(10_000);
    running.body.write(chunkOf(CHUNK));
    expect(running.body.isPaused()).toBe(true);
    running.body.destroy();
    const order: string[] = [];
    await new Promise<void>((resolve) => {
      running.turns.end(() => {
        order.push(`${running.seen().length} bytes`);
        resolve();
      });
      order.push('told');
      running.turns.end(() => order.push('again'));
    });
    expect(order).toEqual(['told', `${CHUNK} bytes`]);
  });

  it('is left alone once its reader stopped it', async () => {
    const running = startTurns(10_000);
    running.body.write(chunkOf(CHUNK));
    expect(running.body.isPaused()).toBe(true);
    running.turns.stop();
    for (let i = 0; i < 5; i++) await turn();
    expect(running.seen()).toHaveLength(2048);
  });
});

describe('bytes that are here', () => {
  it('are looked at in turns of a quarter of a millisecond', async () => {
    const pieces = [chunkOf(1000), chunkOf(300_000), chunkOf(20_000, 3)];
    const parts: Uint8Array[] = [];
    await inTurns(pieces, (part) => {
      look(part, 100);
      parts.push(part);
    });
    expect(Buffer.concat(parts).equals(Buffer.concat(pieces))).toBe(true);
    expect(Math.max(...perTurn)).toBeLessThan(4096 + 2048);
  });
});
