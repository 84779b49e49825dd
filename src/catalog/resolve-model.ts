import { DEFAULT_TOKEN_BUDGETS, UNKNOWN_IMAGE_TOKENS } from '../metering/estimate.ts';
import { combineMarkups, type MarkupTerms, parseMarkup } from '../metering/markup.ts';
import { FREE, type Price, withMarkup } from '../metering/price.ts';
import { parsePricing, type Pricing, type ReportedPricing, type SeparateTiers } from '../metering/pricing.ts';
import { type Labels, parseLabels } from '../options/labels.ts';
import type {
  CatalogEntry,
  EnforceOutputLimit,
  ModelCatalog,
  ModelOptions,
  PriceCatalog,
  PriceQuery,
  PricingOption,
  TargetOptions,
} from '../options/model-options.ts';
import {
  type AnswerTerms,
  assertObject,
  oneOfError,
  positiveInteger,
  resolveAnswer,
  optionError,
} from '../options/resolve-options.ts';
import { resolveModelSticky, type StickySettings } from '../options/resolve-sticky.ts';
import { resolveWait } from '../options/resolve-wait.ts';
import { resolveUpstreamLimits } from '../options/upstream-limits.ts';
import { STRATEGIES } from '../options/strategies.ts';
import { suggestion } from '../platform/did-you-mean.ts';
import { answerPlan } from './answer-plan.ts';
import { resolveTargetRules } from './resolve-body-rules.ts';
import { searchesByName } from './implied-prices.ts';
import type { Model, Target, TargetOutput } from './model.ts';
import { assertCovers } from './ceilings.ts';
import { resolveDeprecation } from './resolve-deprecation.ts';
import { checkModelId } from './model-id.ts';
import type { Provider } from './provider.ts';
import { MODEL_INFO, resolveModelInfo } from './resolve-model-info.ts';
import { resolveServerTools } from './server-tools.ts';

const MODEL_OPTIONS: Record<keyof ModelOptions, unknown> = {
  targets: true,
  strategy: true,
  sticky: true,
  wait: true,
  pricing: true,
  serviceTiers: true,
  markup: true,
  byokPricing: true,
  contextWindow: true,
  maxOutputTokens: true,
  enforceOutputLimit: true,
  maxWebSearches: true,
  serverTools: true,
  accountFiles: true,
  tokenBudgets: true,
  except: true,
  answer: true,
  aliases: true,
  deprecatedAt: true,
  shutdownDate: true,
  replacement: true,
  ...MODEL_INFO,
};

const TARGET_OPTIONS: Record<keyof TargetOptions, true> = {
  provider: true,
  model: true,
  pricing: true,
  byokPricing: true,
  cost: true,
  weight: true,
  body: true,
  labels: true,
  limits: true,
  supportedParameters: true,
};

const NO_LABELS: Labels = {};

/** Web searches that a hold covers by default. */
const DEFAULT_WEB_SEARCHES = 5;

/** Settings that apply to all models. */
export interface ResolveContext {
  readonly providers: ReadonlyMap<string, Provider>;
  /** The router's markup. */
  readonly markup: MarkupTerms;
  /** Undefined without a price catalog. */
  readonly prices: PriceCatalog | undefined;
  /** Undefined without a model catalog. */
  readonly modelInfo: ModelCatalog | undefined;
  /** The router's edits of answers. */
  readonly answer: AnswerTerms;
  /** The router's. */
  readonly sticky: StickySettings | undefined;
}

/** A target's options, its provider, and the path of the option. */
interface GivenTarget {
  readonly given: TargetOptions;
  readonly provider: Provider;
  readonly option: string;
}

/** @throws {TypeError} naming the invalid option */
export function resolveModel(id: string, given: ModelOptions, context: ResolveContext): Model {
  const option = `models[${JSON.stringify(id)}]`;
  checkModelId(id, option);
  assertObject(given, option, MODEL_OPTIONS);
  if (given.pricing === undefined) {
    throw new TypeError(
      `${option}.pricing is missing: give { input, output } in USD per million tokens, or 'free'`,
    );
  }
  if (given.except !== undefined && !id.endsWith('*')) {
    throw new TypeError(`${option}.except needs a wildcard ID that ends in *`);
  }
  if (!Array.isArray(given.targets)) throw optionError(`${option}.targets`, 'an array', given.targets);
  const [firstTarget, ...otherTargets] = given.targets.map((target: string | TargetOptions, index) =>
    resolveGivenTarget(target, context.providers, `${option}.targets[${index}]`),
  );
  if (!firstTarget) throw new TypeError(`${option}.targets must name at least one target`);

  const pricer = new Pricer(context, given.markup, option);
  const price = pricer.ofModel(given, firstTarget, option);
  const byokPrice = pricer.optional(given.byokPricing, firstTarget, `${option}.byokPricing`);
  const known = given.pricing === 'catalog' ? pricer.entry(firstTarget, `${option}.pricing`) : undefined;
  const contextWindow = given.contextWindow ?? known?.contextWindow;
  const maxOutputTokens = given.maxOutputTokens ?? known?.maxOutputTokens ?? known?.contextWindow;
  const output = {
    maxTokens: optionalPositive(maxOutputTokens, `${option}.maxOutputTokens`),
    insertsLimit: resolveEnforcement(given.enforceOutputLimit, `${option}.enforceOutputLimit`),
    contextWindow: optionalPositive(contextWindow, `${option}.contextWindow`),
  };
  if (given.maxOutputTokens !== undefined && given.maxOutputTokens > (given.contextWindow ?? Infinity)) {
    throw new TypeError(
      `${option}.maxOutputTokens (${given.maxOutputTokens}) is above ${option}.contextWindow (${given.contextWindow}), which includes the output`,
    );
  }
  const answer = resolveAnswer(given.answer, `${option}.answer`, context.answer);
  const { modelInfo } = context;
  const { accountFiles = false, serverTools, supportedParameters } = given;
  if (typeof accountFiles !== 'boolean')
    throw optionError(`${option}.accountFiles`, 'a boolean', accountFiles);
  const targetOf = (each: GivenTarget): Target => ({
    ...withCeiling(
      each,
      given.pricing,
      option,
      resolveTarget(id, each, { price, byokPrice, pricer, output, answer, supportedParameters, modelInfo }),
    ),
    serverTools: resolveServerTools(serverTools, each.provider.preset, `${option}.serverTools`),
    accountFiles,
  });
  const targets = [targetOf(firstTarget), ...otherTargets.map(targetOf)] as const;
  const prices = [price, ...targets.flatMap((target) => [target.price, target.byokPrice])];
  if (maxOutputTokens === undefined && prices.some((each) => each !== FREE)) {
    throw new TypeError(
      `${option}.maxOutputTokens is missing: holds are calculated from it, unless the model is 'free'`,
    );
  }
  const { strategy = 'ordered', maxWebSearches: webSearches = DEFAULT_WEB_SEARCHES } = given;
  if (!STRATEGIES.includes(strategy)) throw oneOfError(`${option}.strategy`, STRATEGIES, strategy);
  if (webSearches !== 0) positiveInteger(webSearches, `${option}.maxWebSearches`);
  return {
    id,
    aliases: resolveAliases(given.aliases, `${option}.aliases`),
    wildcard: undefined,
    deprecation: resolveDeprecation(given, option),
    targets,
    strategy,
    sticky: resolveModelSticky(given.sticky, context.sticky, `${option}.sticky`),
    wait: resolveWait(given.wait, `${option}.wait`),
    price,
    prices: [...new Set(targets.map((target) => target.price))],
    contextWindow: output.contextWindow,
    maxOutputTokens: output.maxTokens,
    webSearches,
    webSearchesNeeded: prices.some((each) => each.webSearch > 0n) ? webSearches : 0,
    ...resolveMedia(given.tokenBudgets, targets, `${option}.tokenBudgets`),
    info: resolveModelInfo(id, given, option, modelInfo?.find(question(firstTarget))),
  };
}

function resolveGivenTarget(
  target: string | TargetOptions,
  providers: ReadonlyMap<string, Provider>,
  option: string,
): GivenTarget {
  const given = typeof target === 'string' ? splitTarget(target, option) : target;
  assertObject(given, option, TARGET_OPTIONS);
  const provider = providers.get(given.provider);
  if (!provider) {
    const names = [...providers.keys()];
    const wanted = `one of providers (${names.join(', ')})`;
    const { message } = optionError(`${option}.provider`, wanted, given.provider);
    throw new TypeError(`${message}${suggestion(given.provider, names)}`);
  }
  if (typeof given.model !== 'string' || given.model === '') {
    throw optionError(`${option}.model`, "the model's name at the provider", given.model);
  }
  return { given, provider, option };
}

function resolveTarget(
  modelId: string,
  target: GivenTarget,
  ofModel: {
    readonly price: Price;
    readonly byokPrice: Price | undefined;
    readonly pricer: Pricer;
    readonly output: TargetOutput;
    readonly answer: AnswerTerms;
    /** The model's own option. */
    readonly supportedParameters: readonly string[] | undefined;
    readonly modelInfo: ModelCatalog | undefined;
  },
): Omit<Target, 'serverTools' | 'accountFiles'> {
  const { given, provider, option } = target;
  const { pricer, output, answer } = ofModel;
  const price = pricer.optional(given.pricing, target, `${option}.pricing`) ?? ofModel.price;
  const byokPrice = pricer.optional(given.byokPricing, target, `${option}.byokPricing`);
  return {
    modelId,
    wildcard: undefined,
    provider,
    model: given.model,
    healthKey: given.model,
    searches: searchesByName(given.model, provider),
    price,
    byokPrice: byokPrice ?? ofModel.byokPrice ?? price,
    usesByok: false,
    ...pricer.costOf(target),
    weight: weightOf(given.weight, `${option}.weight`),
    output,
    labels: given.labels === undefined ? NO_LABELS : parseLabels(given.labels, `${option}.labels`),
    limits: resolveUpstreamLimits(given.limits, `${option}.limits`),
    parameters: parametersAt(target, ofModel),
    body: resolveTargetRules(provider, given.body, `${option}.body`),
    answerPlan: answerPlan(provider.preset, answer),
  };
}

/** The parameters that a target takes: its own option, that of the model, or what a model catalog says of it. */
function parametersAt(
  target: GivenTarget,
  ofModel: {
    readonly supportedParameters: readonly string[] | undefined;
    readonly modelInfo: ModelCatalog | undefined;
  },
): ReadonlySet<string> | undefined {
  const { given, option } = target;
  if (given.supportedParameters !== undefined) {
    MODEL_INFO.supportedParameters(given.supportedParameters, `${option}.supportedParameters`);
  }
  const known =
    given.supportedParameters ??
    ofModel.supportedParameters ??
    ofModel.modelInfo?.find(question(target))?.supportedParameters;
  return known && new Set(known);
}

/** Checks that a target's ceiling is not below its cost, unless one of them comes from a price catalog. */
function withCeiling<T extends Pick<Target, 'price' | 'cost'>>(
  { given, option }: GivenTarget,
  ofModel: PricingOption,
  modelOption: string,
  target: T,
): T {
  const pricing = given.pricing ?? ofModel;
  if (!isReported(pricing) || pricing.ceiling === 'catalog' || !target.cost) return target;
  if (given.cost === 'catalog' || (isReported(given.cost) && given.cost.ceiling === 'catalog')) return target;
  const path = given.pricing === undefined ? modelOption : option;
  const costOption = isReported(given.cost) ? `${option}.cost.ceiling` : `${option}.cost`;
  assertCovers(target.price, target.cost, `${path}.pricing.ceiling`, costOption);
  return target;
}

/** Resolves the prices of one model: configured, or from a price catalog, with markup. */
class Pricer {
  readonly #catalog: PriceCatalog | undefined;
  readonly #markup: MarkupTerms;

  constructor({ prices, markup: ofAll }: ResolveContext, markup: ModelOptions['markup'], option: string) {
    this.#catalog = prices;
    this.#markup =
      markup === undefined ? ofAll : combineMarkups(ofAll, parseMarkup(markup, `${option}.markup`));
  }

  price(given: PricingOption, target: GivenTarget, option: string): Price {
    return this.#sold(given, target, option);
  }

  optional(given: PricingOption | undefined, target: GivenTarget, option: string): Price | undefined {
    return given === undefined ? undefined : this.price(given, target, option);
  }

  /** The model's own price, with its service tiers. */
  ofModel({ pricing, serviceTiers }: ModelOptions, target: GivenTarget, option: string): Price {
    const beside =
      serviceTiers === undefined ? undefined : { serviceTiers, option: `${option}.serviceTiers` };
    return this.#sold(pricing, target, `${option}.pricing`, beside);
  }

  /** The provider's cost, from prices or as reported. */
  costOf(target: GivenTarget): Pick<Target, 'cost' | 'reportsCost'> {
    const { given, provider } = target;
    const option = `${target.option}.cost`;
    if (given.cost === undefined) return { cost: undefined, reportsCost: provider.reportsAllCost };
    if (given.cost === 'reported') {
      assertReports(provider, option);
      return { cost: undefined, reportsCost: true };
    }
    const cost = this.#parse(given.cost, target, option);
    return { cost, reportsCost: cost.reported };
  }

  #sold(given: PricingOption, target: GivenTarget, option: string, beside?: SeparateTiers): Price {
    const price = this.#parse(given, target, option, beside);
    const isBounded = price.inputAtMost > 0n || price.outputAtMost > 0n;
    if (isReported(given) && given.ceiling !== 'catalog' && !isBounded) {
      throw new TypeError(`${option}.ceiling must have prices above 0: holds are calculated from it`);
    }
    return withMarkup(price, this.#markup);
  }

  #parse(given: PricingOption, target: GivenTarget, option: string, beside?: SeparateTiers): Price {
    if (given === 'catalog') return parsePricing(this.entry(target, option).pricing, option, beside);
    if (!isReported(given)) return parsePricing(given, option, beside);
    assertReports(target.provider, option);
    const { ceiling } = given;
    const prices = ceiling === 'catalog' ? this.entry(target, `${option}.ceiling`).pricing : ceiling;
    return parsePricing({ ...given, ceiling: prices }, option, beside);
  }

  entry(target: GivenTarget, option: string): CatalogEntry {
    if (!this.#catalog) {
      throw new TypeError(
        `${option} is 'catalog': set the option prices, e.g. to catalogPrices() of chat-completions-router/prices`,
      );
    }
    const entry = this.#catalog.find(question(target));
    if (entry) return entry;
    const { provider, given } = target;
    throw new TypeError(
      `${option} is 'catalog', which has no price for ${JSON.stringify(given.model)} at ${JSON.stringify(provider.name)}`,
    );
  }
}

function isReported(
  given: PricingOption | 'reported' | undefined,
): given is Omit<ReportedPricing, 'ceiling'> & { readonly ceiling: Pricing | 'catalog' } {
  return typeof given === 'object' && given !== null && 'reported' in given;
}

function assertReports({ name, preset, reportedCost }: Provider, option: string): void {
  if (reportedCost !== undefined) return;
  throw new TypeError(
    `${option} is the reported cost, but ${JSON.stringify(name)} (${String(preset)}) reports none: use { input, output }`,
  );
}

function question({ provider, given }: GivenTarget): PriceQuery {
  return priceQuestion(provider, given.model);
}

/** The lookup of a model in a catalog. */
export function priceQuestion(provider: Provider, model: string): PriceQuery {
  const url = provider.origin.origin + provider.chatPath(model);
  return { provider: provider.preset ?? provider.name, url, model };
}

function resolveAliases(given: unknown, option: string): readonly string[] {
  if (given === undefined) return [];
  if (!Array.isArray(given)) throw optionError(option, 'a list of model IDs', given);
  return given.map((alias: unknown) => {
    if (typeof alias !== 'string') throw optionError(option, 'a list of model IDs', given);
    checkModelId(alias, `${option} has ${JSON.stringify(alias)}`);
    return alias;
  });
}

function resolveEnforcement(given: EnforceOutputLimit | undefined, option: string): boolean {
  if (given === undefined || given === 'lower') return false;
  if (given !== 'insert') throw optionError(option, "'lower' or 'insert'", given);
  return true;
}

function weightOf(given: number | undefined, option: string): number {
  if (given === undefined) return 1;
  if (!(Number.isFinite(given) && given > 0)) throw optionError(option, 'a number above 0', given);
  return given;
}

function splitTarget(target: string, option: string): TargetOptions {
  const slash = target.indexOf('/');
  if (slash < 1) throw optionError(option, "'provider/upstream-model' or { provider, model }", target);
  return { provider: target.slice(0, slash), model: target.slice(slash + 1) };
}

function resolveMedia(
  given: ModelOptions['tokenBudgets'],
  targets: readonly Target[],
  option: string,
): Pick<Model, 'tokenBudgets' | 'mediaBounds'> {
  assertObject(given ?? {}, option, { ...DEFAULT_TOKEN_BUDGETS });
  for (const [name, value] of Object.entries(given ?? {})) positiveInteger(value, `${option}.${name}`);
  const tokenBudgets = { ...DEFAULT_TOKEN_BUDGETS, ...given };
  const image = given?.image ?? Math.max(...targets.map(imageTokensAt));
  return {
    tokenBudgets: { ...tokenBudgets, image: Math.min(tokenBudgets.image, image) },
    mediaBounds: { image, audioPerSecond: tokenBudgets.audioPerSecond, file: given?.file },
  };
}

/** Most tokens of one image at a target, by the longest matching prefix of its model. */
function imageTokensAt({ provider, model }: Target): number {
  const rules = Object.entries(provider.imageTokens ?? {}).filter(([start]) => model.startsWith(start));
  rules.sort(([a], [b]) => b.length - a.length);
  return rules[0]?.[1] ?? UNKNOWN_IMAGE_TOKENS;
}

function optionalPositive(value: number | undefined, option: string): number | undefined {
  return value === undefined ? undefined : positiveInteger(value, option);
}
