import { describe, expect, it } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import { Capacity } from '../../../src/upstream/capacity.ts';
import { CircuitBreakers } from '../../../src/upstream/circuit-breaker.ts';
import { ProviderKeys } from '../../../src/upstream/provider-keys.ts';
import { RequestRoom } from '../../../src/upstream/request-room.ts';
import { WaitingLine } from '../../../src/upstream/waiting-line.ts';

const limits = { concurrentRequests: 1 };
const provider = { name: 'groq', apiKeys: [] } as unknown as Target['provider'];
const TARGET = { provider, healthKey: 'a', model: 'a', limits } as Target;
const OTHER = { provider, healthKey: 'b', model: 'b', limits } as Target;

function roomOf(capacity: Capacity): RequestRoom {
  const services = {
    capacity,
    waitingLine: new WaitingLine((listener) => capacity.onFreed(listener)),
    breakers: new CircuitBreakers({ settings: undefined, emit: () => {} }),
    providerKeys: new ProviderKeys(),
  };
  return new RequestRoom(services, {
    account: 'acct',
    tokens: 1,
    byokKeys: undefined,
    conversation: undefined,
    canWait: false,
  });
}

describe('the room of a request', () => {
  it('is there when the request was planned again, with other objects for its targets', () => {
    const room = roomOf(new Capacity());
    expect(room.reserve([OTHER, TARGET])).toBe(0);
    const [first, second] = [{ ...TARGET }, { ...OTHER }];
    expect(room.inOrder([first, second])).toEqual([second, first]);
    expect([room.keyAt(first), room.keyAt(second)]).toEqual([undefined, '']);
    expect(room.take(second, '')).toBe(true);
  });

  it('is of one model, where a wildcard’s targets share their health', () => {
    const room = roomOf(new Capacity());
    const [one, other] = [TARGET, { ...TARGET, model: 'other' }];
    expect(room.reserve([other])).toBe(0);
    expect(room.inOrder([one, other])).toEqual([other, one]);
    expect([room.keyAt(one), room.keyAt(other)]).toEqual([undefined, '']);
  });

  it('is not reserved any more at a target that it does not begin with', () => {
    const capacity = new Capacity();
    const room = roomOf(capacity);
    expect(room.reserve([TARGET])).toBe(0);
    expect(capacity.waitMs(TARGET, '', 1)).toBe(Infinity);
    expect(room.take(OTHER, '')).toBe(true);
    expect([capacity.waitMs(TARGET, '', 1), capacity.waitMs(OTHER, '', 1)]).toEqual([0, Infinity]);
    room.end();
    expect(capacity.waitMs(OTHER, '', 1)).toBe(0);
  });

  it('is its own until it is sent again, whoever waits for it', async () => {
    const capacity = new Capacity();
    const [room, next] = [roomOf(capacity), roomOf(capacity)];
    room.reserve([TARGET]);
    let served = 0;
    capacity.onFreed(() => {
      if (next.reserve([TARGET]) === 0) served += 1;
    });
    expect([room.take(TARGET, ''), room.take(TARGET, ''), room.take(TARGET, '')]).toEqual([true, true, true]);
    await Promise.resolve();
    expect(served).toBe(0);
    room.end();
    await Promise.resolve();
    expect(served).toBe(1);
  });
});
