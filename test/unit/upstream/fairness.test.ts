import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import type { Target } from '../../../src/catalog/model.ts';
import type { UpstreamLimits } from '../../../src/options/upstream-limits.ts';
import { Capacity } from '../../../src/upstream/capacity.ts';
import { WaitingLine } from '../../../src/upstream/waiting-line.ts';
import { Random } from '../../simulation/random.ts';

const MINUTE = 60_000;
const STEP_MS = 50;

interface AccountOfWorld {
  readonly perMinute: number;
  /** Of a request. */
  readonly tokens: readonly [number, number];
}

interface Share {
  served: number;
  /** Refused, or out of time. */
  refused: number;
  /** Of those that were served. */
  tokens: number;
  readonly waits: number[];
}

// Time passes by steps alone.
beforeEach(() => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
});

/** Minutes of accounts that share a target, in virtual time. */
async function simulate<Name extends string>(
  limits: UpstreamLimits,
  accounts: Readonly<Record<Name, AccountOfWorld>>,
  { minutes = 5, msOf = (tokens: number) => tokens, upToMs = 60_000 } = {},
): Promise<Record<Name, Share>> {
  const random = new Random(11);
  const capacity = new Capacity();
  const line = new WaitingLine((listener) => capacity.onFreed(listener));
  const target = { provider: { name: 'groq', limits }, healthKey: 'llama', model: 'llama' };
  const targets = [target as unknown as Target];
  const shares = new Map<string, Share>();
  const ask = async (account: string, tokens: number, share: Share): Promise<void> => {
    const since = performance.now();
    const reserve = (): number => {
      const waitMs = capacity.waitMs(targets[0]!, '', tokens);
      if (waitMs > 0) return waitMs;
      const permit = capacity.take(targets[0]!, '', tokens);
      setTimeout(() => {
        permit.end(tokens);
      }, msOf(tokens));
      return 0;
    };
    const request = { account, model: 'llama', tokens, targets, reserve, onDisconnect: () => {} };
    try {
      await line.wait({ ...request, terms: { upToMs, most: 200 } });
      share.served += 1;
      share.tokens += tokens;
      share.waits.push(performance.now() - since);
    } catch {
      share.refused += 1;
    }
  };
  const arrivals = Object.entries<AccountOfWorld>(accounts).map(([name, world]) => {
    const share: Share = { served: 0, refused: 0, tokens: 0, waits: [] };
    shares.set(name, share);
    return { name, world, share, at: performance.now() };
  });
  const until = performance.now() + minutes * MINUTE;
  while (performance.now() < until) {
    for (const each of arrivals) {
      const [least, most] = each.world.tokens;
      for (
        ;
        each.at <= performance.now();
        each.at += (-Math.log(1 - random.next()) * MINUTE) / each.world.perMinute
      )
        void ask(each.name, random.between(least, most), each.share);
    }
    await vi.advanceTimersByTimeAsync(STEP_MS);
  }
  line.close(new Error('over'));
  await vi.advanceTimersByTimeAsync(MINUTE);
  return Object.fromEntries(shares) as Record<Name, Share>;
}

const most = (numbers: readonly number[]): number => Math.max(0, ...numbers);

describe('accounts that share a full target', () => {
  it('get the same share of its tokens, whatever the size and number of their requests', async () => {
    const { small, large, many } = await simulate(
      { concurrentRequests: 8 },
      {
        small: { perMinute: 3000, tokens: [50, 150] },
        large: { perMinute: 100, tokens: [2000, 4000] },
        many: { perMinute: 2000, tokens: [500, 1500] },
      },
    );
    const shares = [small, large, many].map(({ tokens }) => tokens);
    const [least, largest] = [Math.min(...shares), most(shares)];
    expect(least).toBeGreaterThan(0.9 * largest);
    // Nothing is idle: 8 run at a time, and each token takes a millisecond.
    expect(shares.reduce((sum, tokens) => sum + tokens)).toBeGreaterThan(0.9 * 8 * 5 * MINUTE);
  });

  it('are not starved by one that floods it: those that need less than their share are all served', async () => {
    const light = { perMinute: 12, tokens: [500, 1000] } as const;
    const { flood, one, two, three } = await simulate(
      { concurrentRequests: 4 },
      { flood: { perMinute: 3000, tokens: [500, 1000] }, one: light, two: light, three: light },
      { msOf: () => 1000, upToMs: 10_000 },
    );
    for (const each of [one, two, three]) {
      expect(each.served).toBeGreaterThan(30);
      expect(each.refused).toBe(0);
      // A few places are free in each second, and one is the next one's of each account.
      expect(most(each.waits)).toBeLessThanOrEqual(3000);
    }
    expect(flood.refused).toBeGreaterThan(10 * flood.served);
    // Nothing is idle: four a second.
    expect(flood.served + one.served + two.served + three.served).toBeGreaterThan(0.95 * 4 * 300);
  });
});
