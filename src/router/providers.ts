import { randomUUID } from 'node:crypto';

import type { ProviderCosts } from '../billing/provider-costs.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Model, Target } from '../catalog/model.ts';
import type { Provider } from '../catalog/provider.ts';
import { formatUsd } from '../ledger/contract/money.ts';
import type {
  ProviderBudget,
  ProviderStatus,
  ProviderTargetStatus,
  WaitingStatus,
} from '../observability/provider-status.ts';
import { optionError, positiveInteger } from '../options/option-checks.ts';
import { optionsObject } from '../platform/options-object.ts';
import type { Capacity } from '../upstream/capacity.ts';
import type { CircuitBreaker, CircuitBreakers } from '../upstream/circuit-breaker.ts';
import { masked } from '../upstream/provider-errors.ts';
import type { ProviderKeys } from '../upstream/provider-keys.ts';
import type { RecentErrors } from '../upstream/recent-errors.ts';
import { minutesOf, RECENT_MINUTES, startOf, sumsOf } from '../upstream/target-history.ts';
import type { FleetSync } from '../upstream/fleet-sync.ts';
import type { WaitingLine } from '../upstream/waiting-line.ts';
import { type ModelPrices, pricesOf } from './model-prices.ts';
import type { RoutingChanges } from './routing-changes.ts';

/**
 * What operators see of providers in this process, and do with them: in all processes that share the store, within a second, until they
 * undo it. With a store in memory, or one without a place for it, in this process, and until it ends.
 */
export interface ProviderStates {
  /** All providers of the options, in their order, as this process has seen them. */
  list(): readonly ProviderStatus[];
  /** How many requests wait in this process, for each model with the option `wait`. */
  waiting(): readonly WaitingStatus[];
  /**
   * Ejects a provider, or one of its targets: no later request is sent there until it is readmitted. Where no target of a model is
   * left, its requests get a 503 `targets_ejected`. Running requests go on.
   *
   * @throws {TypeError} naming the invalid argument; nothing has changed then. {StoreUnavailableError} if the store did not record it
   */
  eject(provider: string, options?: EjectOptions): Promise<ProviderStatus>;
  /**
   * Ends an ejection, by an operator, after failures or by `stopAt`: of one target, or of a provider with all its targets. A target of an
   * ejected provider stays ejected with it. A provider that has cost what it may goes on until the end of the period.
   *
   * @throws as `eject`
   */
  readmit(provider: string, options?: ReadmitOptions): Promise<ProviderStatus>;
  /**
   * Sets the weight of a model's targets at a provider, in place of that of the options, whose own weight takes it back. With 0 a target
   * is asked only after all others have failed. A request keeps the order that it has begun with.
   *
   * @param model - its ID, or a wildcard's pattern; its `strategy` is `weighted`
   * @param weight - 0 or more
   * @returns the model, as `router.modelPrices()` shows it
   * @throws as `eject`
   */
  setWeight(model: string, provider: string, weight: number, options?: WeightOptions): Promise<ModelPrices>;
}

export interface ReadmitOptions {
  /** A model of the provider, as `list()` names it. @default the whole provider */
  readonly target?: string;
}

export interface EjectOptions extends ReadmitOptions {
  /** Shown to operators, with secrets masked: at most 200 characters. */
  readonly reason?: string;
  /** How long until it ends by itself, in ms; at most a year. @default until it is readmitted */
  readonly forMs?: number;
  /** Who does it: at most 200 characters. */
  readonly by?: string;
}

export interface WeightOptions {
  /** The provider's name for the model, if the model has several targets there. */
  readonly target?: string;
  /** Who does it: at most 200 characters. */
  readonly by?: string;
}

export interface ProviderStateServices {
  readonly catalog: Catalog;
  readonly breakers: CircuitBreakers;
  readonly providerKeys: ProviderKeys;
  readonly capacity: Capacity;
  readonly waitingLine: WaitingLine;
  readonly recentErrors: RecentErrors;
  readonly routing: RoutingChanges;
  readonly providerCosts: ProviderCosts;
  readonly fleet?: FleetSync | undefined;
}

const EJECT_MEMBERS: Record<keyof EjectOptions, true> = { target: true, reason: true, forMs: true, by: true };
const MAX_TEXT_LENGTH = 200;
const MAX_FOR_MS = 366 * 86_400_000;
const MAX_WEIGHT = 1e9;
/** Names that an error message lists. */
const MAX_NAMES = 20;

export function createProviderStates(services: ProviderStateServices): ProviderStates {
  const { routing, providerCosts } = services;

  function find(name: string, target: string | undefined): Provider {
    const { providers } = services.catalog;
    const provider = providers.get(name);
    if (!provider) throw optionError('provider', oneOf([...providers.keys()]), name);
    const names = targetsOf(provider, services.catalog).map(({ healthKey }) => healthKey);
    if (target !== undefined && !names.includes(target)) throw optionError('target', oneOf(names), target);
    return provider;
  }

  return {
    list: () => [...services.catalog.providers.values()].map((provider) => statusOf(provider, services)),
    waiting: () =>
      services.catalog.models.flatMap(({ id, wait }) =>
        wait ? [{ model: id, waiting: services.waitingLine.lengthOf(id), most: wait.most }] : [],
      ),
    async eject(name, options = {}) {
      const { target, reason, forMs, by } = optionsObject(options, EJECT_MEMBERS);
      const provider = find(name, target);
      for (const [option, text] of Object.entries({ reason, by })) checkText(option, text);
      if (forMs !== undefined) positiveInteger(forMs, 'forMs');
      if (forMs !== undefined && forMs > MAX_FOR_MS)
        throw optionError('forMs', `at most ${MAX_FOR_MS}`, forMs);
      const ejection = {
        at: new Date(),
        ...(by !== undefined && { by }),
        ...(reason !== undefined && { reason: masked(reason) }),
        ...(forMs !== undefined && { until: new Date(Date.now() + forMs) }),
      };
      await routing.change((document) => ({
        ...document,
        ejections: [
          ...document.ejections.filter((each) => each.provider !== name || each.model !== target),
          { provider: name, ...(target !== undefined && { model: target }), ejection },
        ],
      }));
      return statusOf(provider, services);
    },
    async readmit(name, options = {}) {
      const { target } = optionsObject(options, { target: true });
      const provider = find(name, target);
      const readmission = { id: randomUUID(), at: new Date(), provider: name, model: target };
      await routing.change((document) => {
        const spent = target === undefined ? providerCosts.of(provider) : undefined;
        const isStopped = spent !== undefined && spent.spent >= spent.stopAt.amount;
        return {
          ...document,
          ejections: document.ejections.filter(
            (each) => each.provider !== name || (target !== undefined && each.model !== target),
          ),
          readmissions: [...document.readmissions, readmission],
          ...(isStopped && {
            resumed: [
              ...document.resumed.filter((each) => each.provider !== name),
              { provider: name, until: new Date(spent.until) },
            ],
          }),
        };
      });
      const targets = targetsOf(provider, services.catalog);
      await services.fleet?.readmitted(
        targets.filter(({ healthKey }) => target === undefined || healthKey === target),
      );
      return statusOf(provider, services);
    },
    async setWeight(id, name, weight, options = {}) {
      const { target: asked, by } = optionsObject(options, { target: true, by: true });
      checkText('by', by);
      if (!(typeof weight === 'number' && weight >= 0 && weight <= MAX_WEIGHT)) {
        throw optionError('weight', `a number from 0 to ${MAX_WEIGHT}`, weight);
      }
      const model = weightedModel(services.catalog, id);
      const targets = targetsAt(model, name, asked);
      const [{ healthKey }] = targets;
      const isConfigured = targets.every((target) => target.weight === weight);
      const place = { id, provider: name, model: healthKey };
      const change = { ...place, weight, at: new Date(), ...(by !== undefined && { by }) };
      await routing.change((document) => {
        const others = document.weights.filter(
          (each) => each.id !== id || each.provider !== name || each.model !== healthKey,
        );
        return { ...document, weights: isConfigured ? others : [...others, change] };
      });
      return pricesOf(model, services.breakers.weights);
    },
  };
}

/** @throws {TypeError} if there is none, or its requests aren't spread by weight */
function weightedModel({ models }: Catalog, id: string): Model {
  const model = models.find((each) => each.id === id);
  if (!model) throw optionError('model', oneOf(models.map((each) => each.id)), id);
  if (model.strategy === 'weighted') return model;
  throw optionError('model', "one with the strategy 'weighted'", `${id} (${model.strategy})`);
}

/** The targets of one name that a model has at a provider: at least one. */
function targetsAt(model: Model, provider: string, asked: string | undefined): [Target, ...Target[]] {
  const there = model.targets.filter((target) => target.provider.name === provider);
  const providers = new Set(model.targets.map((target) => target.provider.name));
  if (there.length === 0) throw optionError('provider', oneOf([...providers]), provider);
  const names = [...new Set(there.map(({ healthKey }) => healthKey))];
  if (asked === undefined && names.length > 1) throw optionError('target', oneOf(names), asked);
  const [first, ...others] = there.filter(({ healthKey }) => asked === undefined || healthKey === asked);
  if (!first) throw optionError('target', oneOf(names), asked);
  return [first, ...others];
}

/** Its targets, one for each health key. */
function targetsOf(provider: Provider, catalog: Catalog): Target[] {
  const targets = new Map<string, Target>();
  for (const target of catalog.targets) {
    if (target.provider === provider && !targets.has(target.healthKey)) targets.set(target.healthKey, target);
  }
  return [...targets.values()];
}

function statusOf(provider: Provider, services: ProviderStateServices): ProviderStatus {
  const { catalog, breakers, providerKeys, capacity, recentErrors } = services;
  const keys = providerKeys.statuses(provider);
  const now = Date.now();
  const { name } = provider;
  const all = targetsOf(provider, catalog);
  const ejection = breakers.byHand.ofProvider(name, now);
  const budget = budgetOf(provider, services);
  const used: CircuitBreaker[] = [];
  const targets = all.flatMap((target): ProviderTargetStatus[] => {
    const byHand = breakers.byHand.of(target, now);
    const breaker = breakers.find(target);
    if (breaker?.history) used.push(breaker);
    else if (!byHand || ejection) return [];
    return [breakers.of(target).details(now, byHand)];
  });
  const histories = used.flatMap(({ history }) => history ?? []);
  const state = stateOf(targets, ejection !== undefined, used.length);
  const since = ejection?.at ?? sinceOf(targets, state);
  const retryAt = ejection ? ejection.until : state === 'ejected' ? firstRetryOf(targets) : undefined;
  return {
    name,
    state,
    ...(since && { since }),
    ...(retryAt && { retryAt, retryInMs: Math.max(0, retryAt.getTime() - now) }),
    ...(ejection && { ejection }),
    ...(budget && { stopAt: budget }),
    changesReach: services.routing.reach,
    running: targets.reduce((sum, { running }) => sum + running, 0),
    recent: sumsOf(histories, now, RECENT_MINUTES).stats(),
    history: minutesOf(histories, now).map((sums) => ({ at: startOf(sums), ...sums.stats() })),
    errors: recentErrors.of(name),
    keys,
    limits: capacity.statuses(
      provider,
      all,
      keys.map((key) => key.name),
    ),
    targets,
    unusedTargets: all.length - targets.length,
  };
}

function budgetOf(
  provider: Provider,
  { providerCosts, routing }: ProviderStateServices,
): ProviderBudget | undefined {
  const found = providerCosts.of(provider);
  if (!found) return undefined;
  const { stopAt, spent, until } = found;
  return {
    amount: formatUsd(stopAt.amount),
    per: stopAt.per,
    spent: formatUsd(spent),
    until: new Date(until),
    ...(routing.isResumed(provider.name, Date.now()) && { resumed: true }),
  };
}

function stateOf(
  targets: readonly ProviderTargetStatus[],
  isEjected: boolean,
  used: number,
): ProviderStatus['state'] {
  if (isEjected) return 'ejected';
  if (used === 0) return targets.length > 0 ? 'degraded' : 'unused';
  if (targets.every(({ state }) => state === 'ejected')) return 'ejected';
  return targets.every(({ state }) => state === 'healthy') ? 'healthy' : 'degraded';
}

/** Ejected since the last target was, degraded since the first one was, healthy since the last one is. */
function sinceOf(targets: readonly ProviderTargetStatus[], state: ProviderStatus['state']): Date | undefined {
  const times = targets
    .filter((target) => state !== 'degraded' || target.state !== 'healthy')
    .flatMap(({ since }) => since?.getTime() ?? []);
  if (state === 'unused' || times.length === 0) return undefined;
  return new Date(state === 'degraded' ? Math.min(...times) : Math.max(...times));
}

/** Undefined if operators have to readmit all of them. */
function firstRetryOf(targets: readonly ProviderTargetStatus[]): Date | undefined {
  const times = targets.flatMap(({ retryAt }) => retryAt?.getTime() ?? []);
  return times.length === 0 ? undefined : new Date(Math.min(...times));
}

function checkText(option: string, text: unknown): void {
  if (text === undefined) return;
  if (typeof text !== 'string' || text.length > MAX_TEXT_LENGTH) {
    throw optionError(option, `a string of at most ${MAX_TEXT_LENGTH} characters`, text);
  }
}

function oneOf(names: readonly string[]): string {
  const more = names.length > MAX_NAMES ? ` or ${names.length - MAX_NAMES} more` : '';
  return `one of ${names.slice(0, MAX_NAMES).join(', ')}${more}`;
}
