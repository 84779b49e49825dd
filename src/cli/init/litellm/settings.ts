import { MODEL_ID_WANTED, type ModelEntries, withPrice } from './models.ts';
import { isModelId } from '../../../catalog/model-id.ts';
import { MAX_TIMER_MS } from '../../../options/option-checks.ts';
import {
  environmentName,
  IN_ENVIRONMENT,
  isRecord,
  nonEmptyText,
  nonNegative,
  type Notes,
  positive,
  records,
  strings,
  type YamlRecord,
} from './values.ts';

/** LiteLLM's routing strategies → ours. */
const STRATEGY_OF: Readonly<Record<string, string>> = {
  'simple-shuffle': 'weighted',
  'least-busy': 'fastest',
  'latency-based-routing': 'fastest',
  'cost-based-routing': 'cheapest',
  'usage-based-routing': 'weighted',
  'usage-based-routing-v2': 'weighted',
};

/** Settings without an equivalent, by name. */
const WHY_NOT: Readonly<Record<string, string>> = {
  master_key:
    'clients use API keys that `keys create` makes; the admin API has a token of its own: ADMIN_TOKEN',
  database_url: 'keys and credits are in `store`: a SQLite file or Redis. Keys are moved with --keys',
  store_model_in_db: 'models are in the config only; SIGHUP reloads it',
  drop_params: 'unsupported fields are removed per provider: body.drop',
  cache: 'answers are not cached',
  cache_params: 'answers are not cached',
  callbacks: 'use hooks, OpenTelemetry or Prometheus: docs/observability.md',
  success_callback: 'use hooks, OpenTelemetry or Prometheus: docs/observability.md',
  failure_callback: 'use hooks, OpenTelemetry or Prometheus: docs/observability.md',
  guardrails: 'check prompts with the option guard: docs/guards.md',
  context_window_fallbacks: 'no equivalent: too long a prompt is refused, whichever target is next',
  content_policy_fallbacks: 'no equivalent: a refusal by a content filter goes to the client',
  default_fallbacks: 'add targets to each model',
  max_budget: 'budgets are per API key and account: keys create --budget, and prepaid credits',
  budget_duration: 'budgets are per API key and account: keys create --budget, and prepaid credits',
  max_parallel_requests: 'concurrency is limited per API key: --concurrent-requests',
  global_max_parallel_requests: 'concurrency is limited per API key: --concurrent-requests',
  pass_through_endpoints: 'only chat completions, models, credits and generations are served',
  redis_host: 'for several gateways set store to redis://HOST',
  redis_port: 'for several gateways set store to redis://HOST',
  redis_password: 'for several gateways set store to redis://HOST',
  redis_url: 'for several gateways set store to redis://HOST',
  enable_pre_call_checks: 'always on: a prompt that cannot fit is refused before it is sent',
  default_team_settings: 'no teams: an account can have several API keys',
  alerting: 'use hooks: onLedgerEvent and onHealthChange',
  allowed_routes: 'limit paths in your reverse proxy or app',
  model_group_retry_policy: 'set once for all models: retries',
  retry_policy: 'set once for all models: retries',
};

/** Settings that need no note: they say nothing about what clients get. */
const SILENT = /^(telemetry|set_verbose|json_logs|database_connection|proxy_b|routing_strategy_args$)/;

export interface Settings {
  /** Our strategy for models with several deployments. */
  readonly strategy: string;
  /** Options of the router. */
  readonly options: Record<string, unknown>;
  /** Alias → model. */
  readonly aliases: ReadonlyMap<string, string>;
  /** Model → the models that are tried after it. */
  readonly fallbacks: ReadonlyMap<string, readonly string[]>;
}

/** Reads `router_settings`, `litellm_settings`, `general_settings`, and notes what they have beyond. */
export function readSettings(config: YamlRecord, notes: Notes): Settings {
  const sections = ['litellm_settings', 'router_settings', 'general_settings'].map(
    (name) => [name, isRecord(config[name]) ? config[name] : {}] as const,
  );
  const all: YamlRecord = Object.assign({}, ...sections.map(([, section]) => section));
  const theirs = nonEmptyText(all['routing_strategy']) ?? 'simple-shuffle';
  if (theirs.startsWith('usage-based')) {
    notes.add(
      'routing_strategy',
      `${theirs}: targets are chosen by weight, not by what is left of their limits`,
    );
  }
  if (!Object.hasOwn(STRATEGY_OF, theirs)) {
    notes.add('routing_strategy', `${theirs} is not known: targets are chosen by weight`);
  }
  const seconds = positive(all['request_timeout']) ?? positive(all['timeout']);
  const retries = nonNegative(all['num_retries']);
  const read = new Set([
    'routing_strategy',
    'request_timeout',
    'timeout',
    'num_retries',
    'allowed_fails',
    'cooldown_time',
    'disable_cooldowns',
    'model_group_alias',
    'fallbacks',
  ]);
  for (const [section, settings] of sections) {
    for (const [name, value] of Object.entries(settings)) {
      if (read.has(name)) {
        if (environmentName(value) !== undefined) notes.add(`${section}.${name}`, IN_ENVIRONMENT);
      } else if (!SILENT.test(name)) {
        notes.add(`${section}.${name}`, WHY_NOT[name] ?? 'no equivalent');
      }
    }
  }
  for (const name of Object.keys(config)) {
    if (!['model_list', ...sections.map(([section]) => section)].includes(name)) {
      notes.add(name, WHY_NOT[name] ?? OTHER_SECTIONS[name] ?? 'no equivalent');
    }
  }
  return {
    strategy: STRATEGY_OF[theirs] ?? 'weighted',
    options: {
      ...(seconds !== undefined && { timeouts: { totalMs: milliseconds(seconds) } }),
      ...(retries !== undefined && { retries: { perTarget: Math.ceil(retries) } }),
      ...healthOf(all),
    },
    aliases: aliasesOf(all['model_group_alias']),
    fallbacks: fallbacksOf(all['fallbacks']),
  };
}

/** The circuit breaker: none without a time to cool down. LiteLLM counts the failures that it allows, not the one too many. */
function healthOf(all: YamlRecord): { readonly health?: unknown } {
  const failures = nonNegative(all['allowed_fails']);
  const coolDown = nonNegative(all['cooldown_time']);
  if (coolDown === 0 || all['disable_cooldowns'] === true) return { health: false };
  if (failures === undefined && coolDown === undefined) return {};
  return {
    health: {
      ...(failures !== undefined && { failures: Math.floor(failures) + 1 }),
      ...(coolDown !== undefined && { coolDownMs: milliseconds(coolDown) }),
    },
  };
}

/** At most what a timer can wait. */
function milliseconds(seconds: number): number {
  return Math.min(Math.ceil(seconds * 1000), MAX_TIMER_MS);
}

const OTHER_SECTIONS: Readonly<Record<string, string>> = {
  environment_variables: 'put them into .env',
  include: 'other files are not read: convert each',
  mcp_servers: 'only chat completions are served',
  files_settings: 'only chat completions are served',
  finetune_settings: 'only chat completions are served',
};

function aliasesOf(given: unknown): ReadonlyMap<string, string> {
  const pairs = Object.entries(isRecord(given) ? given : {}).map(
    ([alias, target]) => [alias, nonEmptyText(isRecord(target) ? target['model'] : target)] as const,
  );
  return new Map(pairs.flatMap(([alias, model]) => (model === undefined ? [] : [[alias, model]])));
}

/** `[{ a: ['b', 'c'] }, …]` */
function fallbacksOf(given: unknown): ReadonlyMap<string, readonly string[]> {
  return new Map(
    records(given).flatMap((each) => Object.entries(each).map(([model, names]) => [model, strings(names)])),
  );
}

/** Adds aliases, and the targets of fallbacks, at their own prices, after those of a model. */
export function applySettings(models: ModelEntries, { aliases, fallbacks }: Settings, notes: Notes): void {
  const own = new Map(
    Object.entries(models).map(([id, { targets }]) => [id, Array.isArray(targets) ? targets : []]),
  );
  for (const [id, names] of fallbacks) {
    const model = models[id];
    const found = names.filter((name) => own.has(name));
    if (!model || found.length < names.length) {
      notes.add(`fallbacks of ${id}`, 'some of these models are not in the config');
    }
    if (!model || found.length === 0) continue;
    const added = found.flatMap((name) =>
      (own.get(name) ?? []).map((target: unknown) => withPrice(target, models[name]?.['pricing'])),
    );
    if (model['strategy'] !== undefined) {
      notes.add(
        `fallbacks of ${id}`,
        'targets are tried in order, because a strategy would also choose among the fallbacks',
      );
    }
    delete model['strategy'];
    const targets = (own.get(id) ?? []).map((target: unknown) => withoutWeight(target));
    model['targets'] = [...targets, ...added.map(withoutWeight)];
    // Of a free model, which has none, whose fallbacks are not free.
    const limits = found.flatMap((name) => positive(models[name]?.['maxOutputTokens']) ?? []);
    if (model['maxOutputTokens'] === undefined && limits.length > 0) {
      model['maxOutputTokens'] = Math.min(Math.max(...limits), positive(model['contextWindow']) ?? Infinity);
    }
  }
  for (const [alias, id] of aliases) {
    const model = models[id];
    if (!model) notes.add(`model_group_alias ${alias}`, `${id} is not in the config`);
    else if (Object.hasOwn(models, alias))
      notes.add(`model_group_alias ${alias}`, 'left out: a model has this ID');
    else if (!isModelId(alias)) notes.add(`model_group_alias ${alias}`, `left out: ${MODEL_ID_WANTED}`);
    else model['aliases'] = [...strings(model['aliases']), alias];
  }
}

function withoutWeight(target: unknown): unknown {
  if (!isRecord(target)) return target;
  const { weight: _, ...rest } = target;
  const { provider, model, ...others } = rest;
  return Object.keys(others).length === 0 ? `${String(provider)}/${String(model)}` : rest;
}
