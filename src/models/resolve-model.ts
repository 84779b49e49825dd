import { DEFAULT_TOKEN_BUDGETS, type TokenBudgets } from '../metering/estimate.ts';
import { combineMarkups, type MarkupTerms, parseMarkup } from '../metering/markup.ts';
import { FREE, type Price, withMarkup } from '../metering/price.ts';
import { parsePricing } from '../metering/pricing.ts';
import type { Choice, ModelOptions, TargetOptions } from '../options/model-options.ts';
import { checkRecord, positiveInteger, wrong } from '../settings.ts';
import type { Model, Target } from './catalog.ts';
import type { Provider } from './providers.ts';

const CHOICES: readonly Choice[] = ['ordered', 'weighted', 'cheapest', 'fastest'];

const MODEL_OPTIONS: Record<keyof ModelOptions, true> = {
  targets: true,
  choice: true,
  pricing: true,
  markup: true,
  ownKeyPricing: true,
  contextWindow: true,
  maxOutputTokens: true,
  maxWebSearches: true,
  tokenBudgets: true,
  name: true,
  description: true,
  created: true,
  ownedBy: true,
};

const TARGET_OPTIONS: Record<keyof TargetOptions, true> = {
  provider: true,
  model: true,
  pricing: true,
  ownKeyPricing: true,
  cost: true,
  weight: true,
};

/** Searches of the Web that are held for. */
const WEB_SEARCHES = 5;

/** What all models are resolved with. */
export interface ModelSurroundings {
  readonly providers: ReadonlyMap<string, Provider>;
  /** The router's own. */
  readonly markup: MarkupTerms;
}

/** @throws {TypeError} naming the option that can't be right */
export function resolveModel(
  id: string,
  given: ModelOptions,
  { providers, markup: ofAll }: ModelSurroundings,
): Model {
  const option = `models[${JSON.stringify(id)}]`;
  // eslint-disable-next-line no-control-regex -- IDs stand in paths, headers and journals
  if (id === '' || id.length > 256 || /^\/|\/$|[\u0000-\u0020\u007f]/.test(id)) {
    throw new TypeError(`${option}: a model ID has 1 to 256 characters, no blanks, and no slash at its ends`);
  }
  checkRecord(given, option, MODEL_OPTIONS);
  if (given.pricing === undefined) {
    throw new TypeError(
      `${option}.pricing is missing: give { input, output } in USD per million tokens, or 'free'`,
    );
  }
  const markup =
    given.markup === undefined ? ofAll : combineMarkups(ofAll, parseMarkup(given.markup, `${option}.markup`));
  const price = withMarkup(parsePricing(given.pricing, `${option}.pricing`), markup);
  const ownKeyPrice = optionalPrice(given.ownKeyPricing, markup, `${option}.ownKeyPricing`);
  if (!Array.isArray(given.targets)) throw wrong(`${option}.targets`, 'an array', given.targets);
  const [first, ...rest] = given.targets.map((target: string | TargetOptions, index) =>
    resolveTarget(id, target, { price, ownKeyPrice, markup }, providers, `${option}.targets[${index}]`),
  );
  if (!first) throw new TypeError(`${option}.targets must name at least one target`);

  const priced = [price, ...[first, ...rest].flatMap((target) => [target.price, target.ownKeyPrice])].some(
    (each) => each !== FREE,
  );
  if (given.maxOutputTokens === undefined && priced) {
    throw new TypeError(
      `${option}.maxOutputTokens is missing: holds are made of it, unless the model is 'free'`,
    );
  }
  const { choice = 'ordered' } = given;
  if (!CHOICES.includes(choice)) throw wrong(`${option}.choice`, `one of ${CHOICES.join(', ')}`, choice);
  return {
    id,
    targets: [first, ...rest],
    choice,
    price,
    prices: [...new Set([first, ...rest].map((target) => target.price))],
    contextWindow: optionalPositive(given.contextWindow, `${option}.contextWindow`),
    maxOutputTokens: optionalPositive(given.maxOutputTokens, `${option}.maxOutputTokens`),
    webSearches: optionalPositive(given.maxWebSearches, `${option}.maxWebSearches`) ?? WEB_SEARCHES,
    tokenBudgets: resolveBudgets(given.tokenBudgets, `${option}.tokenBudgets`),
    name: given.name ?? id,
    description: given.description,
    created: given.created ?? 0,
    ownedBy: given.ownedBy ?? (id.includes('/') ? id.slice(0, id.indexOf('/')) : 'system'),
  };
}

function resolveTarget(
  modelId: string,
  given: string | TargetOptions,
  ofModel: { readonly price: Price; readonly ownKeyPrice: Price | undefined; readonly markup: MarkupTerms },
  providers: ReadonlyMap<string, Provider>,
  option: string,
): Target {
  const target = typeof given === 'string' ? splitTarget(given, option) : given;
  checkRecord(target, option, TARGET_OPTIONS);
  const provider = providers.get(target.provider);
  if (!provider) {
    throw wrong(
      `${option}.provider`,
      `one of providers (${[...providers.keys()].join(', ')})`,
      target.provider,
    );
  }
  if (typeof target.model !== 'string' || target.model === '') {
    throw wrong(`${option}.model`, "the model's name at the provider", target.model);
  }
  const { markup } = ofModel;
  const price = optionalPrice(target.pricing, markup, `${option}.pricing`) ?? ofModel.price;
  return {
    modelId,
    provider,
    model: target.model,
    price,
    ownKeyPrice:
      optionalPrice(target.ownKeyPricing, markup, `${option}.ownKeyPricing`) ?? ofModel.ownKeyPrice ?? price,
    usesOwnKey: false,
    cost: target.cost === undefined ? undefined : parsePricing(target.cost, `${option}.cost`),
    weight: weightOf(target.weight, `${option}.weight`),
  };
}

function optionalPrice(
  given: ModelOptions['pricing'] | undefined,
  markup: MarkupTerms,
  option: string,
): Price | undefined {
  return given === undefined ? undefined : withMarkup(parsePricing(given, option), markup);
}

function weightOf(given: number | undefined, option: string): number {
  if (given === undefined) return 1;
  if (!(Number.isFinite(given) && given > 0)) throw wrong(option, 'a number above 0', given);
  return given;
}

function splitTarget(target: string, option: string): TargetOptions {
  const slash = target.indexOf('/');
  if (slash < 1) throw wrong(option, "'provider/upstream-model' or { provider, model }", target);
  return { provider: target.slice(0, slash), model: target.slice(slash + 1) };
}

function resolveBudgets(given: ModelOptions['tokenBudgets'], option: string): TokenBudgets {
  if (given === undefined) return DEFAULT_TOKEN_BUDGETS;
  checkRecord(given, option, { ...DEFAULT_TOKEN_BUDGETS });
  for (const [name, value] of Object.entries(given)) positiveInteger(value, `${option}.${name}`);
  return { ...DEFAULT_TOKEN_BUDGETS, ...given };
}

function optionalPositive(value: number | undefined, option: string): number | undefined {
  return value === undefined ? undefined : positiveInteger(value, option);
}
