import { once } from 'node:events';
import * as net from 'node:net';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { Timeout, withTimeout } from '../../../src/async/timeout.ts';
import { blockLoop } from '../../helpers/block-loop.ts';

/** Two ends of a connection. */
async function connect(): Promise<[net.Socket, net.Socket]> {
  const server = net.createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const near = net.connect((server.address() as net.AddressInfo).port, '127.0.0.1');
  const [far] = (await once(server, 'connection')) as [net.Socket];
  onTestFinished(() => {
    near.destroy();
    far.destroy();
    server.close();
  });
  return [near, far];
}

async function heard(socket: net.Socket): Promise<string> {
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  return String(chunk);
}

describe('a timeout', () => {
  it.each([20, 60, 250])(
    'of %i ms reads what came while the process was busy before it gives up',
    async (ms) => {
      const [near, far] = await connect();
      const waiting = withTimeout(heard(near), ms, () => 'late');
      far.write('answer');
      blockLoop(4 * ms);
      expect(await waiting).toBe('answer');
    },
  );

  it('lets an answer take several round trips after the stall', async () => {
    const [near, far] = await connect();
    far.on('data', () => far.write('.'));
    const talk = async (): Promise<string> => {
      for (let trip = 0; trip < 5; trip++) {
        near.write('?');
        await heard(near);
      }
      return 'answer';
    };
    const waiting = withTimeout(talk(), 100, () => 'late');
    blockLoop(400);
    expect(await waiting).toBe('answer');
  });

  it('is over where nothing comes', async () => {
    expect(await withTimeout(new Promise(() => {}), 100, () => 'late')).toBe('late');
  });

  it.each([
    ['nothing', [0, 0, 0, 0], 4000],
    ['40 ms in its second slice', [0, 40, 0, 0, 0], 4080],
    ['300 ms in each slice', [300, 0, 300, 0, 300, 0, 300, 0], 4000 + 4 * 600],
    ['a minute in its first slice', [60_000, 0, 0, 0, 0], 65_000],
    ['300 ms each time', Array.from({ length: 9 }, () => 300), 4000 + 4 * 300 + 9 * 300],
  ])('waits again for what a stall took, and no longer: %s', (_stall, lateness, ms) => {
    const clock = startVirtualClock(lateness);
    let isOver = false;
    const timeout = new Timeout(4000, () => (isOver = true));
    clock.run();
    timeout.clear();
    expect(isOver).toBe(true);
    expect(clock.now()).toBe(ms);
  });

  it('is over in the end where the process is always busy', async () => {
    let blocks = 0;
    let isOver = false;
    const work = (): void => {
      if (isOver) return;
      blocks += 1;
      blockLoop(60);
      setTimeout(work);
    };
    work();
    await withTimeout(new Promise(() => {}), 50, () => (isOver = true));
    // Four slices, each of them repeated once, with a stall or two around each.
    expect(blocks).toBeLessThan(25);
  });

  it('throws what it is late with', async () => {
    const late = (): never => {
      throw new RangeError('late');
    };
    await expect(withTimeout(new Promise(() => {}), 1, late)).rejects.toThrow(RangeError);
  });

  it('is not called once it is cleared, not even when its time was over', async () => {
    let calls = 0;
    const timeout = new Timeout(1, () => (calls += 1));
    const cleared = new Promise<void>((resolve) => {
      setTimeout(() => {
        timeout.clear();
        resolve();
      }, 1);
    });
    // Both timers are due when the loop goes on, so the timeout is cleared in the turn that would end with its call.
    blockLoop(5);
    await cleared;
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(calls).toBe(0);
  });
});

/** Timers of a process that comes to each of them so many ms late. */
function startVirtualClock(lateness: readonly number[]): { run(): void; now(): number } {
  let now = 0;
  let due: { readonly at: number; readonly call: () => void } | undefined;
  let fired = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  vi.stubGlobal('setTimeout', (call: () => void, ms: number) => (due = { at: now + ms, call }));
  vi.stubGlobal('setImmediate', (call: () => void) => (due = { at: now, call }));
  onTestFinished(() => {
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
  });
  return {
    now: () => now,
    run: () => {
      for (let timer = due; timer; timer = due) {
        due = undefined;
        now = timer.at + (lateness[fired++] ?? 0);
        timer.call();
      }
    },
  };
}
