import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import { ProviderCosts } from '../../../src/billing/provider-costs.ts';
import { type Catalog, createCatalog } from '../../../src/catalog/catalog.ts';
import { type HealthChange, MemoryStore, type RoutingStore } from '../../../src/index.ts';
import type { ProviderOptions } from '../../../src/options/provider-options.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import { createProviderStates, type ProviderStates } from '../../../src/router/providers.ts';
import { RoutingChanges } from '../../../src/router/routing-changes.ts';
import { Capacity } from '../../../src/upstream/capacity.ts';
import { CircuitBreakers } from '../../../src/upstream/circuit-breaker.ts';
import { targetsInOrder } from '../../../src/upstream/load-balancing.ts';
import { ProviderKeys } from '../../../src/upstream/provider-keys.ts';
import { RecentErrors } from '../../../src/upstream/recent-errors.ts';
import { WaitingLine } from '../../../src/upstream/waiting-line.ts';

const NOON = Date.UTC(2026, 10, 23, 12);
const HOUR = 3_600_000;
const CENT = 10_000_000n;

interface Process {
  readonly providers: ProviderStates;
  readonly routing: RoutingChanges;
  readonly breakers: CircuitBreakers;
  readonly costs: ProviderCosts;
  readonly changes: HealthChange[];
  readonly errors: string[];
  readonly catalog: Catalog;
  /** A request to `main` has cost so much. */
  spend(amount: bigint): void;
}

const started: RoutingChanges[] = [];

beforeEach(() => {
  vi.useFakeTimers({ now: NOON });
});

afterEach(async () => {
  await Promise.all(started.splice(0).map((routing) => routing.close()));
  vi.useRealTimers();
});

/** A process that shares the store. */
async function start(store: RoutingStore, main: Partial<ProviderOptions> = {}): Promise<Process> {
  const baseURL = 'http://127.0.0.1:9/v1';
  const options = {
    providers: { main: { baseURL, ...main }, spare: { baseURL } },
    models: {
      'acme/fast': { targets: ['main/m', 'spare/s'], strategy: 'weighted', pricing: 'free' },
      'acme/two': { targets: ['main/a', 'main/b', 'spare/s'], strategy: 'weighted', pricing: 'free' },
      'acme/alone': { targets: ['main/m'], pricing: 'free' },
      'open/*': { targets: ['main/*', 'spare/*'], strategy: 'weighted', pricing: 'free' },
    },
  } as const;
  const settings = resolveSettings(options);
  const catalog = createCatalog(options, settings);
  const changes: HealthChange[] = [];
  const errors: string[] = [];
  const breakers = new CircuitBreakers({
    settings: { failures: 1, coolDownMs: 5000, maxCoolDownMs: 60_000 },
    emit: (change) => changes.push(change),
  });
  const costs = new ProviderCosts(Date.now, () => {
    routing.reached();
  });
  const onError = (error: Error): number => errors.push(error.message);
  const routing = new RoutingChanges({ store, breakers, costs, catalog: () => catalog, onError });
  started.push(routing);
  await routing.start();
  const capacity = new Capacity();
  const services = {
    catalog,
    breakers,
    providerKeys: new ProviderKeys(),
    capacity,
    waitingLine: new WaitingLine((listener) => capacity.onFreed(listener)),
    recentErrors: new RecentErrors(),
    routing,
    providerCosts: costs,
  };
  const spend = (amount: bigint): void => {
    const provider = catalog.providers.get('main');
    if (provider) costs.add(provider, amount);
  };
  return {
    providers: createProviderStates(services),
    routing,
    breakers,
    costs,
    changes,
    errors,
    catalog,
    spend,
  };
}

/** The store of several processes. */
function shared(changes: Partial<RoutingStore> = {}): RoutingStore {
  const { routing } = new MemoryStore({ now: Date.now });
  return {
    read: (known) => routing.read(known),
    write: (change) => routing.write(change),
    addCosts: (batch) => routing.addCosts(batch),
    ...changes,
  };
}

const stateOf = ({ providers }: Process, name = 'main'): string =>
  providers.list().find((provider) => provider.name === name)?.state ?? 'none';

const told = ({ changes }: Process): string[] =>
  changes.splice(0).map(({ type, provider, model }) => `${type} ${provider}/${model}`);

describe('changes of the routing by hand', () => {
  it('hold at once in the process that makes them, in others within half a second', async () => {
    const store = shared();
    const [one, two] = [await start(store), await start(store)];
    expect(await one.providers.eject('main', { by: 'ada', target: 'm' })).toMatchObject({
      changesReach: 'all_processes',
      targets: [{ model: 'm', state: 'ejected' }],
    });
    expect(told(one)).toEqual(['target_ejected main/m']);
    expect(told(two)).toEqual([]);
    await vi.advanceTimersByTimeAsync(500);
    expect(told(two)).toEqual(['target_ejected main/m']);
    await two.providers.readmit('main');
    await vi.advanceTimersByTimeAsync(500);
    expect([told(one), told(two)]).toEqual([['target_recovered main/m'], ['target_recovered main/m']]);
  });

  it('of several processes at once are all kept', async () => {
    const store = shared();
    const processes = await Promise.all([1, 2, 3, 4].map(() => start(store)));
    await Promise.all(
      processes.map(({ providers }, n) => providers.eject('main', { target: ['m', 'a', 'b', '*'][n] ?? '' })),
    );
    await vi.advanceTimersByTimeAsync(500);
    for (const one of processes)
      expect(told(one).sort()).toEqual(['*', 'a', 'b', 'm'].map((m) => `target_ejected main/${m}`));
  });

  it('are known to a process that begins later, until their time is over', async () => {
    const store = shared();
    await (await start(store)).providers.eject('main', { forMs: 10_000, reason: 'slow' });
    const late = await start(store);
    expect(stateOf(late)).toBe('ejected');
    await vi.advanceTimersByTimeAsync(10_500);
    expect(stateOf(late)).toBe('unused');
    expect(told(late)).toEqual(['target_ejected main/*', 'target_recovered main/*']);
    expect(stateOf(await start(store))).toBe('unused');
  });

  it('readmit what the circuit breaker of another process has ejected, once', async () => {
    const store = shared();
    const [one, two] = [await start(store), await start(store)];
    const target = two.catalog.targets.find(({ healthKey }) => healthKey === 'm')!;
    const fail = (): void => {
      for (const account of ['a', 'b', 'c']) {
        two.breakers.of(target).startAttempt(Date.now(), account).failed(Date.now());
      }
    };
    fail();
    expect(two.breakers.of(target).retryAt).toBeGreaterThan(0);
    await one.providers.readmit('main');
    await vi.advanceTimersByTimeAsync(500);
    expect(two.breakers.of(target).retryAt).toBe(0);
    fail();
    await one.providers.eject('spare');
    await vi.advanceTimersByTimeAsync(500);
    expect(two.breakers.of(target).retryAt).toBeGreaterThan(0);
  });

  it('stay while the store is away, which is told once', async () => {
    let isAway = false;
    const { routing } = new MemoryStore({ now: Date.now });
    const store = shared({
      read: async (known) => {
        if (isAway) throw new Error('away');
        return routing.read(known);
      },
      write: (change) => routing.write(change),
    });
    const one = await start(store);
    await one.providers.eject('main');
    isAway = true;
    await vi.advanceTimersByTimeAsync(5000);
    const message = "Changes of the routing by hand can't be read; those that are known stay: away";
    expect(one.errors).toEqual([message]);
    await expect(one.providers.readmit('main')).rejects.toThrow('away');
    expect(stateOf(one)).toBe('ejected');
    isAway = false;
    await vi.advanceTimersByTimeAsync(500);
    isAway = true;
    await vi.advanceTimersByTimeAsync(1000);
    expect(one.errors).toEqual([message, message]);
  });

  it('of another release are left alone', async () => {
    const store = shared();
    const one = await start(store);
    await one.providers.eject('main');
    const { version } = await store.read();
    await store.write({ from: version, to: 'later', document: '{"form":2}' });
    await vi.advanceTimersByTimeAsync(500);
    expect(one.errors).toHaveLength(1);
    expect(stateOf(one)).toBe('ejected');
    await expect(one.providers.readmit('main')).rejects.toThrow('the form of another release');
    expect((await store.read()).document).toBe('{"form":2}');
  });

  it('are at most 1000', async () => {
    const store = shared();
    const one = await start(store);
    const entry = (n: number): object => ({ provider: `p${n}`, ejection: { at: new Date().toISOString() } });
    const ejections = Array.from({ length: 1000 }, (_, n) => entry(n));
    const document = JSON.stringify({ form: 1, ejections, weights: [], readmissions: [], resumed: [] });
    await store.write({ from: '', to: 'full', document });
    await expect(one.providers.eject('main')).rejects.toThrow(
      new TypeError('changes must be at most 1000 ejections and weights, got one more'),
    );
    expect(stateOf(one)).toBe('unused');
  });

  it('hold in this process alone if its store has no place for them', async () => {
    const one = await start(new MemoryStore().routing);
    expect(await one.providers.eject('main')).toMatchObject({ changesReach: 'this_process' });
  });
});

describe('weights by hand', () => {
  it('replace that of the options, which takes them back', async () => {
    const store = shared();
    const [one, two] = [await start(store), await start(store)];
    expect((await one.providers.setWeight('acme/fast', 'main', 0, { by: 'ada' })).targets).toMatchObject([
      { weight: 0, weightByHand: { at: new Date(NOON), by: 'ada', configured: 1 } },
      { weight: 1 },
    ]);
    await vi.advanceTimersByTimeAsync(500);
    await two.providers.setWeight('open/*', 'spare', 2.5);
    const back = await two.providers.setWeight('acme/fast', 'main', 1, { target: 'm' });
    expect(back.targets[0]).not.toHaveProperty('weightByHand');
    const { document = '' } = await store.read();
    expect(JSON.parse(document).weights).toMatchObject([
      { id: 'open/*', provider: 'spare', model: '*', weight: 2.5 },
    ]);
  });

  it('of a wildcard count for each model that it stands for, and 0 comes last', async () => {
    const one = await start(shared());
    await one.providers.setWeight('open/*', 'main', 0);
    const model = one.catalog.get('open/gpt-9')!;
    expect(model.targets.map((target) => one.breakers.weights.of(target))).toEqual([0, 1]);
    const terms = {
      quote: undefined as never,
      breakers: one.breakers,
      account: 'acct',
      conversation: undefined,
    };
    onTestFinished(() => void vi.restoreAllMocks());
    for (const drawn of [0, 0.5, 0.999]) {
      vi.spyOn(Math, 'random').mockReturnValue(drawn);
      const ordered = targetsInOrder([model], terms);
      expect(ordered.map(({ provider }) => provider.name)).toEqual(['spare', 'main']);
    }
    const [main] = model.targets;
    expect(targetsInOrder([{ ...model, targets: [main] }], terms)).toEqual([main]);
  });

  it.each([
    ['none', 'main', 1, {}, 'model must be one of acme/fast, acme/two, acme/alone, open/*, got "none"'],
    [
      'acme/alone',
      'main',
      1,
      {},
      `model must be one with the strategy 'weighted', got "acme/alone (ordered)"`,
    ],
    ['acme/fast', 'none', 1, {}, 'provider must be one of main, spare, got "none"'],
    ['acme/two', 'main', 1, {}, 'target must be one of a, b, got undefined'],
    ['acme/two', 'main', 1, { target: 'c' }, 'target must be one of a, b, got "c"'],
    ['acme/fast', 'main', -1, {}, 'weight must be a number from 0 to 1000000000, got -1'],
    ['acme/fast', 'main', Number.NaN, {}, 'weight must be a number from 0 to 1000000000, got '],
    ['acme/fast', 'main', 1, { by: 'x'.repeat(201) }, 'by must be a string of at most 200 characters'],
  ])('refuse %s at %s, %s %j', async (model, provider, weight, options, message) => {
    const one = await start(shared());
    await expect(one.providers.setWeight(model, provider, weight, options)).rejects.toThrow(message);
  });
});

describe('a provider with stopAt', () => {
  const stopAt = { amount: '1.00', per: 'hour' } as const;

  it('is ejected once all processes together have spent the amount, until the period ends', async () => {
    const store = shared();
    const [one, two] = [await start(store, { stopAt }), await start(store, { stopAt })];
    one.spend(60n * CENT);
    two.spend(30n * CENT);
    await vi.advanceTimersByTimeAsync(1500);
    const seen = { amount: '1.00', per: 'hour', spent: '0.90', until: new Date(NOON + HOUR) };
    expect(one.providers.list()[0]?.stopAt).toEqual(seen);
    expect(two.providers.list()[0]?.stopAt).toEqual(seen);
    one.spend(10n * CENT);
    expect(stateOf(one)).toBe('ejected');
    await vi.advanceTimersByTimeAsync(500);
    expect(stateOf(two)).toBe('ejected');
    expect(two.providers.list()[0]?.ejection).toMatchObject({
      reason: 'It has cost what stopAt allows: 1.00 USD per hour.',
      until: new Date(NOON + HOUR),
      stopAt,
    });
    expect(two.changes).toMatchObject([{ type: 'target_ejected', wholeProvider: true, stopAt }]);
    await vi.advanceTimersByTimeAsync(HOUR - 2500);
    expect(stateOf(two)).toBe('ejected');
    await vi.advanceTimersByTimeAsync(1000);
    expect([stateOf(one), stateOf(two)]).toEqual(['unused', 'unused']);
    expect(two.providers.list()[0]?.stopAt).toMatchObject({ spent: '0.00' });
  });

  it('goes on until the period ends if an operator readmits it, and can be ejected by hand', async () => {
    const store = shared();
    const [one, two] = [await start(store, { stopAt }), await start(store, { stopAt })];
    one.spend(100n * CENT);
    await vi.advanceTimersByTimeAsync(1000);
    await two.providers.readmit('main');
    await vi.advanceTimersByTimeAsync(500);
    expect([stateOf(one), stateOf(two)]).toEqual(['unused', 'unused']);
    one.spend(100n * CENT);
    await vi.advanceTimersByTimeAsync(1000);
    expect(two.providers.list()[0]?.stopAt).toMatchObject({ spent: '2.00', resumed: true });
    await one.providers.eject('main', { by: 'ada' });
    expect(one.providers.list()[0]?.ejection).toMatchObject({ by: 'ada' });
    await one.providers.readmit('main');
    await vi.advanceTimersByTimeAsync(HOUR);
    expect(stateOf(two)).toBe('unused');
    one.spend(100n * CENT);
    await vi.advanceTimersByTimeAsync(1500);
    expect(stateOf(two)).toBe('ejected');
  });

  it('tells the store at most once a second, unless it stops', async () => {
    const { routing } = new MemoryStore({ now: Date.now });
    const addCosts = vi.fn<RoutingStore['addCosts']>(async (batch) => {
      one.spend(1n);
      await routing.addCosts(batch);
    });
    const store = shared({ read: (known) => routing.read(known), addCosts });
    const one = await start(store, { stopAt });
    for (let n = 0; n < 100; n++) {
      one.spend(CENT / 2n);
      await vi.advanceTimersByTimeAsync(50);
    }
    expect(addCosts.mock.calls.length).toBeLessThanOrEqual(6);
    const { length } = addCosts.mock.calls;
    one.spend(60n * CENT);
    await vi.advanceTimersByTimeAsync(0);
    expect(addCosts.mock.calls).toHaveLength(length + 1);
  });

  it('counts a batch once whose acknowledgement was lost', async () => {
    const { routing } = new MemoryStore({ now: Date.now });
    let isLost = true;
    const store = shared({
      read: (known) => routing.read(known),
      addCosts: async (batch) => {
        await routing.addCosts(batch);
        if (isLost) throw new Error('no answer');
      },
    });
    const one = await start(store, { stopAt });
    one.spend(10n * CENT);
    await vi.advanceTimersByTimeAsync(3000);
    isLost = false;
    one.spend(CENT);
    await vi.advanceTimersByTimeAsync(3000);
    expect(one.providers.list()[0]?.stopAt).toMatchObject({ spent: '0.11' });
    expect(one.errors).toHaveLength(1);
  });

  it('tells the store what is left when it is closed', async () => {
    const store = shared();
    const one = await start(store, { stopAt });
    await vi.advanceTimersByTimeAsync(100);
    one.spend(CENT);
    await one.routing.close();
    expect((await store.read()).costs).toMatchObject([{ provider: 'main', amount: CENT }]);
  });
});
