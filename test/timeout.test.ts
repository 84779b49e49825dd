import { once } from 'node:events';
import * as net from 'node:net';

import { describe, expect, it, onTestFinished } from 'vitest';

import { Timeout, withTimeout } from '../src/async/timeout.ts';

/** Keeps the event loop, as a host's own work does. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

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
      block(4 * ms);
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
    block(400);
    expect(await waiting).toBe('answer');
  });

  it('is over in time where nothing comes', async () => {
    const from = performance.now();
    expect(await withTimeout(new Promise(() => {}), 100, () => 'late')).toBe('late');
    expect(performance.now() - from).toBeGreaterThan(99);
  });

  it('is over in the end where the process is always busy', async () => {
    let blocks = 0;
    let isOver = false;
    const work = (): void => {
      if (isOver) return;
      blocks += 1;
      block(60);
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
    await new Promise<void>((resolve) => {
      setTimeout(() => {
        // Its verdict is due in this very turn of the loop.
        timeout.clear();
        resolve();
      }, 1);
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(calls).toBe(0);
  });
});
