import { withConfigErrors } from '../config/with-config-errors.ts';
import { loadConfig, storeOf } from '../config/config-file.ts';
import { createCatalog } from '../../catalog/catalog.ts';
import type { ListedModel } from '../../catalog/provider-model-list.ts';
import { resolveProvider } from '../../catalog/resolve-provider.ts';
import type { Provider } from '../../catalog/provider.ts';
import { unpricedFeatures } from '../../catalog/unpriced-features.ts';
import type { OutboundProxyOption } from '../../options/connection-options.ts';
import type { ProviderOptions } from '../../options/provider-options.ts';
import { createChatCompletionsRouter } from '../../router/router.ts';
import { resolveSettings } from '../../options/resolve-options.ts';
import { probeModels, type ListResult } from './probe-models.ts';
import { storeProblem } from './probe-store.ts';
import { type ProbedTarget, probeTargets, type TargetResult } from './probe-targets.ts';
import { describeBodyRules } from './body-rules.ts';
import {
  findBilled,
  type ComparedPrice,
  comparePrice,
  installedPrices,
  type PriceCatalogs,
  type PriceSource,
  type ShownRates,
  shownRates,
} from './compare-prices.ts';
import { findMaxOutput, outputWarning } from './compare-limits.ts';
import { type KeyCheck, readKey, withEachKey } from './keys.ts';
import { cacheWriteWarnings, feeWarnings, tierWarnings } from './unpriced.ts';
import { type CheckedTarget, type NamedTargets, namedTargets, type Sample, samplesOf } from './targets.ts';

export interface CheckOptions {
  readonly path: string;
  /** Whether to request a completion of one token from each target, which costs money. */
  readonly completions: boolean;
  /** Of each request. */
  readonly timeoutMs: number;
  /** Called after each request. */
  readonly onProgress: (finished: number, all: number) => void;
}

/** Result for a provider with one of its keys, or for a target. */
export interface CheckRow {
  /** Its name; with the number of the key if it has several: `openai#2`. */
  readonly provider: string;
  /** The provider's name of the model; undefined in the row of the provider itself. */
  readonly model?: string;
  /** The wildcard entries, or `discovered`, that it was tested as a sample of. */
  readonly sampleOf?: readonly string[];
  /** Whether the provider's model list has it; undefined if there is no list. */
  readonly listed?: boolean;
  /** Number of models in the provider's list. */
  readonly models?: number;
  readonly firstByteMs?: number;
  /** Whether the stream reported its usage; if not, charges are estimates. */
  readonly usage?: 'reported' | 'estimated';
  /** What the provider bills; undefined if unknown. */
  readonly billed?: ShownRates & { readonly source: PriceSource };
  /** For each model of the config that the target serves. */
  readonly prices?: readonly ComparedPrice[];
  /** Body rules, one line for each model of the config that has some for this target. */
  readonly body?: readonly string[];
  /** Features that the provider bills separately and the config has no price for: such requests are rejected. */
  readonly unpriced?: readonly string[];
  /** Possible mistakes that don't fail the check. */
  readonly warnings?: readonly string[];
  /** Undefined if the target was not tested. */
  readonly ok?: boolean;
  readonly problem?: string;
}

/**
 * Checks a config: probes its store, the model list of each provider, and each target for one token; and compares prices.
 *
 * @throws {ConfigError} if the config itself is invalid
 */
export async function check(options: CheckOptions): Promise<readonly CheckRow[]> {
  const { path, timeoutMs } = options;
  const { server: _, ...config } = await loadConfig(path);
  const store = storeOf(config, path);
  const { settings, catalog } = withConfigErrors(path, () => {
    const resolved = resolveSettings(config);
    // Without hooks: they could measure it, or send events that wait.
    createChatCompletionsRouter({ ...config, store: 'memory:', hooks: [] });
    return { settings: resolved, catalog: createCatalog(config, resolved) };
  });
  const named = namedTargets(config, catalog);
  const proxy: OutboundProxyOption = settings.proxy ?? false;
  const keyed = await Promise.all(
    Object.entries(config.providers).flatMap(([name, given]) =>
      withEachKey(name, given).map(async (each) => ({
        ...each,
        options: { proxy, ...each.options },
        name,
        named: named.get(name) ?? { targets: [], wildcards: [] },
        provider: resolveProvider(each.label, each.options, settings),
        key: await readKey(each.options.apiKey),
      })),
    ),
  );
  const all = keyed.reduce((sum, each) => sum + countProbes(each, options), 0);
  let finished = 0;
  const secrets = keyed
    .map(({ key }) => key.secret)
    .filter((secret) => secret !== undefined && secret.length > 3);
  const context: CheckContext = {
    options,
    catalogs: { catalog: settings.prices, package: await installedPrices() },
    samples: ({ name, named }, listed) =>
      samplesOf(name, named.wildcards, listed, (id) => redact(id, secrets) === id, catalog, settings),
    onDone: (requests) => options.onProgress((finished += requests), all),
  };
  const rows = await Promise.all([
    storeProblem(store, timeoutMs).then((problem) => [storeRow(problem)]),
    ...keyed.map((each) => checkProvider(each, context)),
  ]);
  return rows
    .flat()
    .map((row) => (row.problem === undefined ? row : { ...row, problem: redact(row.problem, secrets) }));
}

/** Shared by the checks of all providers. */
interface CheckContext {
  readonly options: CheckOptions;
  readonly catalogs: PriceCatalogs;
  readonly samples: (keyed: ProviderWithKey, listed: readonly ListedModel[]) => readonly Sample[];
  /** Counts requests that are finished or were skipped. */
  readonly onDone: (requests: number) => void;
}

/** A provider with one of its keys. */
interface ProviderWithKey {
  /** Name in the config. */
  readonly name: string;
  readonly label: string;
  readonly options: ProviderOptions;
  readonly provider: Provider;
  readonly named: NamedTargets;
  readonly key: KeyCheck;
}

/** Upper bound of the requests: a model that several entries expand to is probed only once. */
function countProbes({ named, provider }: ProviderWithKey, { completions }: CheckOptions): number {
  return completions ? 1 + named.targets.length + named.wildcards.length + (provider.discovery ? 1 : 0) : 1;
}

async function checkProvider(keyed: ProviderWithKey, context: CheckContext): Promise<CheckRow[]> {
  const { label, provider, named, key } = keyed;
  const { options, catalogs, samples, onDone } = context;
  let left = countProbes(keyed, options);
  const oneDone = (): void => {
    left -= 1;
    onDone(1);
  };
  if (key.problem !== undefined) {
    onDone(left);
    return [{ provider: label, ok: false, problem: key.problem }];
  }
  const ask = async (models: readonly ProbedTarget[]): Promise<ReadonlyMap<string, TargetResult>> =>
    options.completions && models.length > 0
      ? probeTargets(
          label,
          keyed.options,
          provider.outputLimits.obeyed[0],
          models,
          options.timeoutMs,
          oneDone,
        )
      : new Map();
  const names = new Set(named.targets.map(({ model }) => model));
  const sampled = probeModels(provider, key.secret, options.timeoutMs).then(async (models) => {
    oneDone();
    const found = samples(keyed, models.state === 'ok' ? models.listed : []);
    const others = new Map(
      found.flatMap(({ target, body }) => (target ? [[target.model, { model: target.model, body }]] : [])),
    );
    const rest = [...others.values()].filter(({ model }) => !names.has(model));
    return { models, found, answers: await ask(rest) };
  });
  const [answers, { models, found, answers: ofSamples }] = await Promise.all([ask(named.targets), sampled]);
  onDone(left);
  const own: CheckRow =
    models.state === 'failed'
      ? { provider: label, ok: false, problem: models.problem }
      : { provider: label, ...(models.state === 'ok' && { models: models.ids.size }), ok: true };
  const rows = withSamples(named.targets, found).map(({ sampleOf, ...target }) => ({
    ...targetRow(label, target.model, models, answers.get(target.model) ?? ofSamples.get(target.model)),
    ...(sampleOf.length > 0 && { sampleOf }),
    ...compareTarget(target, models, catalogs),
  }));
  const missing = found
    .filter(({ target }) => !target)
    .map(({ sampleOf, model }) => ({
      provider: label,
      model,
      sampleOf: [sampleOf],
      ...(models.state === 'ok' && {
        warnings: [
          sampleOf === 'discovered'
            ? `${keyed.name}: no discovered model can be served: its list has no prices or no context sizes`
            : `${keyed.name} lists no model with a known price that matches ${sampleOf}`,
        ],
      }),
    }));
  return [own, ...rows, ...missing];
}

/** The targets and samples, merged by upstream model. */
function withSamples(
  targets: readonly CheckedTarget[],
  samples: readonly Sample[],
): readonly (CheckedTarget & { readonly sampleOf: readonly string[] })[] {
  const all = new Map(targets.map((target) => [target.model, { ...target, sampleOf: [] as string[] }]));
  for (const { sampleOf, target } of samples) {
    if (!target) continue;
    const before = all.get(target.model) ?? {
      model: target.model,
      body: undefined,
      serves: [],
      sampleOf: [],
    };
    all.set(target.model, {
      ...before,
      serves: [...before.serves, target],
      sampleOf: [...before.sampleOf, sampleOf],
    });
  }
  return [...all.values()];
}

function compareTarget(
  { model, serves }: CheckedTarget,
  models: ListResult,
  catalogs: PriceCatalogs,
): Pick<CheckRow, 'billed' | 'prices' | 'unpriced' | 'body' | 'warnings'> {
  const [first] = serves;
  if (!first) return {};
  const listedModel = models.state === 'ok' ? findListed(models.listed, model) : undefined;
  const billed = findBilled(first, listedModel, catalogs);
  const compared = serves.map((target) => comparePrice(target, billed));
  const maxOutput = findMaxOutput(first, listedModel, catalogs);
  const warnings = [
    ...compared.flatMap((each) => each.warnings),
    ...serves.flatMap((target) => outputWarning(target, maxOutput)),
    ...serves.flatMap(tierWarnings),
    ...serves.flatMap(feeWarnings),
    // A bill that states the price was compared.
    ...(billed?.pricing.cacheWriteInput === undefined ? serves.flatMap(cacheWriteWarnings) : []),
  ];
  const body = serves.flatMap((target) => describeBodyRules(target) ?? []);
  const unpriced = [...new Set(serves.flatMap(unpricedFeatures))];
  return {
    ...(billed && { billed: { source: billed.source, ...shownRates(billed.price) } }),
    prices: compared.map((each) => each.compared),
    ...(unpriced.length > 0 && { unpriced }),
    ...(body.length > 0 && { body }),
    ...(warnings.length > 0 && { warnings }),
  };
}

function targetRow(
  provider: string,
  model: string,
  models: ListResult,
  answer: TargetResult | undefined,
): CheckRow {
  const listed = models.state === 'ok' ? isListed(models.ids, model) : undefined;
  const row = { provider, model, ...(listed !== undefined && { listed }) };
  if (answer?.state === 'failed') return { ...row, ok: false, problem: answer.problem };
  if (answer) {
    const { firstByteMs, usage } = answer;
    return { ...row, firstByteMs, ...(usage && { usage }), ok: true };
  }
  return listed === false ? { ...row, ok: false, problem: "not in the provider's model list" } : row;
}

/** The listed model with this name, else the only one that ends in it after a slash; several would be ambiguous. */
function findListed(listed: readonly ListedModel[], model: string): ListedModel | undefined {
  const found = listed.find(({ id }) => id === model);
  if (found) return found;
  const [first, ...others] = listed.filter(({ id }) => id.endsWith(`/${model}`));
  return others.length === 0 ? first : undefined;
}

/** Some lists prefix names with a path: `models/gemini-2.5-flash`. */
function isListed(ids: ReadonlySet<string>, model: string): boolean {
  return ids.has(model) || [...ids].some((id) => id.endsWith(`/${model}`));
}

function storeRow(problem: string | undefined): CheckRow {
  return { provider: '(store)', ok: problem === undefined, ...(problem !== undefined && { problem }) };
}

function redact(text: string, secrets: readonly (string | undefined)[]): string {
  return secrets.reduce<string>((rest, secret) => (secret ? rest.replaceAll(secret, '***') : rest), text);
}
