import type { Catalog } from '../catalog/catalog.ts';
import type { Target } from '../catalog/model.ts';
import type { Provider } from '../catalog/provider.ts';
import type { ProviderStatus, ProviderTargetStatus } from '../observability/provider-status.ts';
import { optionError, positiveInteger } from '../options/option-checks.ts';
import { optionsObject } from '../platform/options-object.ts';
import type { CircuitBreaker, CircuitBreakers } from '../upstream/circuit-breaker.ts';
import { masked } from '../upstream/provider-errors.ts';
import type { ProviderKeys } from '../upstream/provider-keys.ts';
import type { RecentErrors } from '../upstream/recent-errors.ts';
import { minutesOf, RECENT_MINUTES, startOf, sumsOf } from '../upstream/target-history.ts';

/** What operators see of providers, and do with them: in this process, and until it ends. */
export interface ProviderStates {
  /** All providers of the options, in their order, as this process has seen them. */
  list(): readonly ProviderStatus[];
  /**
   * Ejects a provider, or one of its targets: no later request is sent there until it is readmitted. Where no target of a model is
   * left, its requests get a 503 `targets_ejected`. Running requests go on.
   *
   * @throws {TypeError} naming the invalid argument; nothing has changed then
   */
  eject(provider: string, options?: EjectOptions): ProviderStatus;
  /**
   * Ends an ejection, by an operator or after failures: of one target, or of a provider with all its targets. A target of an ejected
   * provider stays ejected with it.
   *
   * @throws {TypeError} naming the invalid argument; nothing has changed then
   */
  readmit(provider: string, options?: ReadmitOptions): ProviderStatus;
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

export interface ProviderStateServices {
  readonly catalog: Catalog;
  readonly breakers: CircuitBreakers;
  readonly providerKeys: ProviderKeys;
  readonly recentErrors: RecentErrors;
}

const MAX_TEXT_LENGTH = 200;
const MAX_FOR_MS = 366 * 86_400_000;
/** Names that an error message lists. */
const MAX_NAMES = 20;

export function createProviderStates(services: ProviderStateServices): ProviderStates {
  const { breakers } = services;

  function find(name: string, target: string | undefined): { provider: Provider; targets: Target[] } {
    const { providers } = services.catalog;
    const provider = providers.get(name);
    if (!provider) throw optionError('provider', oneOf([...providers.keys()]), name);
    const all = targetsOf(provider, services.catalog);
    const targets = target === undefined ? all : all.filter(({ healthKey }) => healthKey === target);
    if (target !== undefined && targets.length === 0) {
      throw optionError('target', oneOf(all.map(({ healthKey }) => healthKey)), target);
    }
    return { provider, targets };
  }

  return {
    list: () => [...services.catalog.providers.values()].map((provider) => statusOf(provider, services)),
    eject(name, options = {}) {
      const { target, reason, forMs, by } = optionsObject(options);
      const { provider } = find(name, target);
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
      breakers.byHand.eject(name, ejection, target);
      return statusOf(provider, services);
    },
    readmit(name, options = {}) {
      const { target } = optionsObject(options);
      const { provider, targets } = find(name, target);
      breakers.byHand.readmit(name, target);
      for (const each of targets) breakers.find(each)?.readmit(Date.now());
      return statusOf(provider, services);
    },
  };
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
  const { catalog, breakers, providerKeys, recentErrors } = services;
  const now = Date.now();
  const { name } = provider;
  const all = targetsOf(provider, catalog);
  const ejection = breakers.byHand.ofProvider(name, now);
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
    running: targets.reduce((sum, { running }) => sum + running, 0),
    recent: sumsOf(histories, now, RECENT_MINUTES).stats(),
    history: minutesOf(histories, now).map((sums) => ({ at: startOf(sums), ...sums.stats() })),
    errors: recentErrors.of(name),
    keys: providerKeys.statuses(provider),
    targets,
    unusedTargets: all.length - targets.length,
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
