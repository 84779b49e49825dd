import * as fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';

import type { DisconnectListener } from '../../../src/http/exchange.ts';
import type { Target } from '../../../src/catalog/model.ts';
import { WaitingLine, type WaitingRequest } from '../../../src/upstream/waiting-line.ts';

const provider = { name: 'groq' } as Target['provider'];
const TARGET = { provider, healthKey: 'a' } as Target;
const OTHER = { provider, healthKey: 'b' } as Target;
const TERMS = { upToMs: 5000, most: 200 };

/** Targets that each take one request at a time, in virtual time: requests are served as fast as their tokens allow. */
class Upstream {
  readonly line: WaitingLine;
  readonly served: string[] = [];
  /** Tokens that each account was served. */
  readonly tokens = new Map<string, number>();
  readonly #running = new Set<Target>();
  #freed: (() => void) | undefined;

  constructor() {
    this.line = new WaitingLine((listener) => {
      this.#freed = listener;
      return () => {
        this.#freed = undefined;
      };
    });
  }

  request(account: string, tokens = 1, overrides: Partial<WaitingRequest> = {}): WaitingRequest {
    const request: WaitingRequest = {
      account,
      model: 'm',
      tokens,
      targets: [TARGET],
      terms: TERMS,
      reserve: (awaited) => {
        const free = request.targets.find((target) => !this.#running.has(target) && !awaited.has(target));
        if (!free) return Infinity;
        this.#running.add(free);
        this.served.push(account);
        this.tokens.set(account, (this.tokens.get(account) ?? 0) + tokens);
        return 0;
      },
      onDisconnect: () => {},
      ...overrides,
    };
    return request;
  }

  /** The code of its error, once it is served or refused. */
  async wait(...given: Parameters<Upstream['request']>): Promise<string> {
    try {
      await this.line.wait(this.request(...given));
      return 'served';
    } catch (error) {
      return (error as { code?: string; name: string }).code ?? (error as Error).name;
    }
  }

  /** The request that runs at the target ends. */
  end(target: Target = TARGET): void {
    this.#running.delete(target);
    this.#freed?.();
  }
}

function useFakeTimers(): void {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
}

describe('a waiting line', () => {
  it('lets a request go whose targets are not to be asked any more, and serves those behind it', async () => {
    const upstream = new Upstream();
    expect(await upstream.wait('one')).toBe('served');
    let mayAsk = true;
    const reserve = (): number => {
      if (mayAsk) return Infinity;
      throw new Error('ejected');
    };
    const ended = [upstream.wait('two', 1, { reserve }), upstream.wait('three')];
    mayAsk = false;
    upstream.end();
    expect(await Promise.all(ended)).toEqual(['Error', 'served']);
    expect(upstream.line.length).toBe(0);
  });

  it('serves at once where there is room, else when a request ends', async () => {
    const upstream = new Upstream();
    expect(await upstream.wait('one')).toBe('served');
    const waiting = [upstream.wait('two'), upstream.wait('three')];
    expect(upstream.line.length).toBe(2);
    upstream.end();
    upstream.end();
    expect(await Promise.all(waiting)).toEqual(['served', 'served']);
    expect(upstream.served).toEqual(['one', 'two', 'three']);
    expect(upstream.line.length).toBe(0);
  });

  it('gives accounts turns, whoever sends more', () => {
    const upstream = new Upstream();
    for (let n = 0; n < 6; n++) void upstream.wait('greedy', 10);
    void upstream.wait('modest', 10);
    void upstream.wait('modest', 10);
    for (let n = 0; n < 7; n++) upstream.end();
    expect(upstream.served.slice(0, 6)).toEqual(['greedy', 'greedy', 'modest', 'greedy', 'modest', 'greedy']);
  });

  it('counts tokens, not requests', () => {
    const upstream = new Upstream();
    void upstream.wait('first', 1);
    for (let n = 0; n < 10; n++) void upstream.wait('large', 100);
    for (let n = 0; n < 100; n++) void upstream.wait('small', 10);
    for (let n = 0; n < 60; n++) upstream.end();
    const { large = 0, small = 0 } = Object.fromEntries(upstream.tokens);
    expect(Math.abs(large - small)).toBeLessThanOrEqual(100);
  });

  it('gives no longer turns for a large request that has left', async () => {
    useFakeTimers();
    const upstream = new Upstream();
    await upstream.wait('running');
    const large = upstream.wait('greedy', 1000, { terms: { upToMs: 100, most: 200 } });
    for (let n = 0; n < 20; n++) void upstream.wait('greedy');
    for (let n = 0; n < 5; n++) void upstream.wait('modest');
    await vi.advanceTimersByTimeAsync(200);
    expect(await large).toBe('upstream_at_capacity');
    for (let n = 0; n < 10; n++) upstream.end();
    expect(Object.fromEntries(upstream.tokens)).toEqual({ running: 1, greedy: 5, modest: 5 });
    upstream.line.close(new Error('closed'));
  });

  it('gives shorter turns once the largest request is served, and others had as much', async () => {
    const upstream = new Upstream();
    await upstream.wait('running');
    for (const tokens of [100, ...Array.from({ length: 50 }, () => 1)]) void upstream.wait('large', tokens);
    for (let n = 0; n < 150; n++) void upstream.wait('small');
    for (let n = 0; n < 101; n++) upstream.end();
    expect(Object.fromEntries(upstream.tokens)).toEqual({ running: 1, large: 100, small: 100 });
    for (let n = 0; n < 20; n++) upstream.end();
    expect(Object.fromEntries(upstream.tokens)).toEqual({ running: 1, large: 110, small: 110 });
    upstream.line.close(new Error('closed'));
  });

  it('lets none overtake that waits for the same target, and others pass', async () => {
    const upstream = new Upstream();
    await upstream.wait('running', 1, { targets: [TARGET] });
    const large = upstream.wait('large', 1, { reserve: () => Infinity });
    const small = upstream.wait('small');
    upstream.end();
    expect(upstream.line.length).toBe(2);
    expect(await upstream.wait('elsewhere', 1, { targets: [OTHER] })).toBe('served');
    upstream.line.close(new Error('closed'));
    expect(await Promise.all([large, small])).toEqual(['Error', 'Error']);
  });

  it('lets requests of one account pass each other where they wait for other targets', async () => {
    const upstream = new Upstream();
    await upstream.wait('one', 1, { targets: [TARGET] });
    const first = upstream.wait('one', 10);
    const second = upstream.wait('one', 10);
    expect(await upstream.wait('one', 100, { targets: [OTHER] })).toBe('served');
    const third = upstream.wait('one', 100, { targets: [OTHER] });
    const both = upstream.wait('one', 1, { targets: [OTHER, TARGET] });
    expect(upstream.line.length).toBe(4);
    upstream.end(OTHER);
    expect(await third).toBe('served');
    upstream.end(OTHER);
    // It would overtake those that wait for the other one.
    expect(upstream.line.length).toBe(3);
    upstream.end();
    upstream.end();
    expect(await Promise.all([first, second, both])).toEqual(['served', 'served', 'served']);
  });

  it('lets a request have a free target, whoever waits for another one of its own', async () => {
    const upstream = new Upstream();
    await upstream.wait('pinned');
    const waiting = upstream.wait('pinned');
    expect(await upstream.wait('free', 1, { targets: [TARGET, OTHER] })).toBe('served');
    const second = upstream.wait('free', 1, { targets: [TARGET, OTHER] });
    upstream.end(OTHER);
    expect(await second).toBe('served');
    upstream.end();
    expect(await waiting).toBe('served');
    expect(upstream.served).toEqual(['pinned', 'free', 'free', 'pinned']);
  });

  it('gives an account its turns at a target, however much it is served at others', () => {
    const upstream = new Upstream();
    void upstream.wait('running', 10, { targets: [TARGET] });
    void upstream.wait('running', 10, { targets: [OTHER] });
    for (const account of ['one', 'one', 'other', 'other']) void upstream.wait(account, 10);
    for (let n = 0; n < 20; n++) void upstream.wait('one', 10, { targets: [OTHER] });
    const served: unknown[] = [];
    for (let n = 0; n < 4; n++) {
      upstream.end(OTHER);
      upstream.end(OTHER);
      upstream.end(OTHER);
      upstream.end();
      served.push(upstream.served.at(-1));
    }
    expect(served).toEqual(['one', 'other', 'one', 'other']);
  });

  it('needs no place for a request that waits for nobody', async () => {
    const upstream = new Upstream();
    const terms = { upToMs: 5000, most: 1 };
    await upstream.wait('one', 1, { terms });
    const second = upstream.wait('one', 1, { terms });
    expect(await upstream.wait('one', 1, { terms })).toBe('waiting_line_full');
    expect(await upstream.wait('one', 1, { terms, targets: [OTHER] })).toBe('served');
    expect(await upstream.wait('one', 1, { terms, targets: [OTHER] })).toBe('waiting_line_full');
    upstream.end();
    expect(await second).toBe('served');
  });

  it('lets requests of its own account pass one that can not be served in its time', async () => {
    const upstream = new Upstream();
    const large = upstream.wait('one', 1, { reserve: () => 6000 });
    expect(await upstream.wait('one')).toBe('served');
    upstream.line.close(new Error('closed'));
    expect(await large).toBe('Error');
  });

  it('knows a target of several models, or of the options before, by its provider and name', async () => {
    const upstream = new Upstream();
    const large = upstream.wait('large', 1, { reserve: () => Infinity });
    const small = upstream.wait('small', 1, { model: 'other', targets: [{ ...TARGET }] });
    expect(upstream.line.length).toBe(2);
    upstream.line.close(new Error('closed'));
    expect(await Promise.all([large, small])).toEqual(['Error', 'Error']);
  });

  it('lets others pass a request that can not be served in its time', async () => {
    const upstream = new Upstream();
    const large = upstream.wait('large', 1, { reserve: () => 6000 });
    expect(await upstream.wait('small')).toBe('served');
    upstream.line.close(new Error('closed'));
    expect(await large).toBe('Error');
  });

  it('lets a request wait no longer than its time', async () => {
    useFakeTimers();
    const upstream = new Upstream();
    await upstream.wait('running');
    const late = upstream.wait('late', 1, { terms: { upToMs: 100, most: 5 } });
    await vi.advanceTimersByTimeAsync(200);
    expect(await late).toBe('upstream_at_capacity');
    expect(upstream.line.length).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('looks again when its targets said that there is room', async () => {
    useFakeTimers();
    const upstream = new Upstream();
    let at = Date.now() + 300;
    const reserve = (): number => Math.max(0, at - Date.now());
    const waiting = upstream.wait('one', 1, { reserve });
    await vi.advanceTimersByTimeAsync(299);
    expect(upstream.line.length).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(await waiting).toBe('served');
    at = 0;
  });

  it('is left by a client that leaves', async () => {
    const upstream = new Upstream();
    await upstream.wait('running');
    let client: DisconnectListener | undefined;
    const onDisconnect = (listener: DisconnectListener | undefined): void => {
      client = listener;
    };
    const left = upstream.wait('one', 1, { onDisconnect });
    const next = upstream.wait('two');
    client?.onDisconnect();
    expect(await left).toBe('ClientDisconnectedError');
    upstream.end();
    expect(await next).toBe('served');
    expect(client).toBeUndefined();
  });

  it('has places for so many of a model, with equal parts for accounts', async () => {
    const upstream = new Upstream();
    const terms = { upToMs: 5000, most: 4 };
    await upstream.wait('running');
    const greedy = Array.from({ length: 5 }, () => upstream.wait('greedy', 1, { terms }));
    expect(await greedy[4]).toBe('waiting_line_full');
    const modest = [upstream.wait('modest', 1, { terms }), upstream.wait('modest', 1, { terms })];
    // Its newest give way.
    expect(await Promise.all([greedy[3], greedy[2]])).toEqual(['waiting_line_full', 'waiting_line_full']);
    expect(await upstream.wait('modest', 1, { terms })).toBe('waiting_line_full');
    expect(upstream.line.length).toBe(4);
    // Those of another model have places of their own.
    void upstream.wait('greedy', 1, { terms, model: 'other' });
    expect(upstream.line.length).toBe(5);
    upstream.line.close(new Error('closed'));
    expect(await Promise.all([greedy[0], greedy[1], ...modest])).toEqual([
      'Error',
      'Error',
      'Error',
      'Error',
    ]);
    expect(await upstream.wait('late')).toBe('Error');
  });

  it('serves accounts that wait on as many tokens, but for two of the largest requests', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 40, maxLength: 80 });
    fc.assert(
      fc.property(fc.array(sizes, { minLength: 2, maxLength: 6 }), fc.nat({ max: 300 }), (accounts, ends) => {
        const upstream = new Upstream();
        void upstream.wait('running');
        for (const [n, tokens] of accounts.entries()) {
          for (const each of tokens)
            void upstream.wait(`account-${n}`, each, { terms: { upToMs: 5000, most: 1000 } });
        }
        const counts = accounts.map(({ length }) => length);
        for (let n = 0; n < ends; n++) {
          upstream.end();
          const account = upstream.served.at(-1)?.split('-')[1];
          if (account !== undefined) counts[Number(account)]! -= 1;
          // Until one of them has nothing more.
          if (counts.includes(0)) break;
        }
        const served = accounts.map((_, n) => upstream.tokens.get(`account-${n}`) ?? 0);
        expect(Math.max(...served) - Math.min(...served)).toBeLessThanOrEqual(
          2 * Math.max(...accounts.flat()),
        );
      }),
    );
  });

  it('serves accounts as many tokens, whenever their large requests come', () => {
    const sizes = fc.array(fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 5000 })), {
      minLength: 200,
      maxLength: 200,
    });
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 4 }), sizes, (accounts, tokens) => {
        const upstream = new Upstream();
        void upstream.wait('running');
        for (let n = 0; n < 2 * accounts; n++) void upstream.wait(`account-${n % accounts}`);
        for (const each of tokens) {
          upstream.end();
          // None of them has ever nothing that waits.
          void upstream.wait(upstream.served.at(-1)!, each);
        }
        upstream.line.close(new Error('closed'));
        const served = Array.from({ length: accounts }, (_, n) => upstream.tokens.get(`account-${n}`) ?? 0);
        expect(Math.max(...served) - Math.min(...served)).toBeLessThanOrEqual(3 * Math.max(...tokens));
      }),
    );
  });

  it('serves everyone that stays, one for each place that is free', () => {
    const coming = {
      type: fc.constant('come' as const),
      account: fc.nat({ max: 4 }),
      tokens: fc.nat({ max: 1000 }),
    };
    const step = fc.oneof(
      fc.record(coming),
      fc.record({ type: fc.constant('end' as const) }),
      fc.record({ type: fc.constant('leave' as const), nth: fc.nat({ max: 20 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const upstream = new Upstream();
        const leaves = new Set<() => void>();
        for (const each of steps) {
          if (each.type === 'come') {
            let listener: DisconnectListener | undefined;
            const leave = (): void => listener?.onDisconnect();
            const onDisconnect = (given: DisconnectListener | undefined): void => {
              listener = given;
              if (given) leaves.add(leave);
              else leaves.delete(leave);
            };
            void upstream.wait(String(each.account), each.tokens, { onDisconnect });
          } else if (each.type === 'end') upstream.end();
          else [...leaves][each.nth]?.();
        }
        const served = upstream.served.length;
        const left = upstream.line.length;
        expect(leaves.size).toBe(left);
        for (let n = 0; n < left; n++) upstream.end();
        expect(upstream.served.length - served).toBe(left);
        expect(upstream.line.length).toBe(0);
      }),
    );
  });
});
