import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { type WarmConnection, WarmConnections } from '../../../src/upstream/transport/warm-connections.ts';

class Connection implements WarmConnection {
  isOpen = true;
  onLost: () => void = () => {};

  close(): void {
    this.isOpen = false;
    this.onLost();
  }
}

describe('warm connections', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });

  afterEach(() => {
    vi.useRealTimers();
  });

  it('opens another for one that the provider closed while it was handed over', async () => {
    const opened: Connection[] = [];
    const warm = new WarmConnections({
      size: 1,
      open: async () => {
        const connection = new Connection();
        // The first is closed before anyone listens.
        if (opened.push(connection) === 1) connection.close();
        return connection;
      },
      hasRoom: () => true,
      onReady: () => {},
    });
    warm.start();
    await vi.advanceTimersByTimeAsync(0);
    expect([opened.length, warm.size]).toEqual([1, 0]);
    await vi.advanceTimersByTimeAsync(1000);
    expect([opened.length, warm.size]).toEqual([2, 1]);
    expect(warm.take()).toBe(opened[1]);
    warm.stop();
  });

  it('closes one that can take no request any more', async () => {
    const closed = vi.fn<() => void>();
    const opened: Connection[] = [];
    const warm = new WarmConnections({
      size: 1,
      open: async () => {
        const connection = Object.assign(new Connection(), { close: closed });
        opened.push(connection);
        return connection;
      },
      hasRoom: () => true,
      onReady: () => {},
    });
    warm.start();
    await vi.advanceTimersByTimeAsync(0);
    Object.assign(opened[0]!, { isOpen: false });
    expect(warm.take()).toBeUndefined();
    expect(closed).toHaveBeenCalledOnce();
    warm.stop();
  });
});
