import { InvalidRequestError } from '../errors/request-errors.ts';
import {
  areRequirements,
  MAX_LABELS,
  parseRequirements,
  type RequiredLabel,
  requiredLabels,
} from '../options/labels.ts';
import type { ClientRoutingFields } from '../options/resolve-options.ts';
import { SORT_WORDS, type SortStrategy } from '../options/strategies.ts';
import { asError } from '../platform/as-error.ts';
import { concatChunks, type BodyChunks } from './body-chunks.ts';
import { conflictingFields, invalidType } from './field-errors.ts';
import type { Span } from './splice-request.ts';

/** The position in the body of a field by which a client chooses among models and providers. */
export interface RoutingField extends Span {
  readonly name: string;
  /** The span of the value; the field's own span is the whole member, including its key. */
  readonly value: Span;
}

/** A client's choice among models and providers; undefined where it made none. */
export interface ClientRouting {
  /** IDs of the models to ask after the request's own, in this order. */
  readonly models: readonly string[] | undefined;
  /** Names of the providers to ask first, in this order. */
  readonly order: readonly string[] | undefined;
  readonly only: readonly string[] | undefined;
  readonly ignore: readonly string[] | undefined;
  /** False: only the providers of `order` are tried, or without an `order` the target that comes first. */
  readonly allowFallbacks: boolean;
  readonly sort: ClientSort | undefined;
  /** Only targets that take each parameter of the request. */
  readonly requireParameters: boolean;
  /** Labels that targets must have. */
  readonly require: readonly RequiredLabel[];
  /** The highest prices that a target may have for the client; undefined for any. */
  readonly maxPrice: MaxPrice | undefined;
  /** The request chooses among providers, so that its client may know their names. */
  readonly choosesProviders: boolean;
}

/** By what the targets are sorted. */
export interface ClientSort {
  readonly by: SortStrategy;
  /** Those of all models together, not those of each model. */
  readonly acrossModels: boolean;
}

/** In pico-dollars a token, and nano-dollars a request; undefined for any. */
export interface MaxPrice {
  readonly prompt: bigint | undefined;
  readonly completion: bigint | undefined;
  readonly request: bigint | undefined;
}

/** Longer fields are rejected. */
const MAX_FIELD_BYTES = 16_384;
const MAX_NAMES = 32;
const MAX_REASON_LENGTH = 200;
const MAX_USD = 1_000_000;
/** Prices are in USD a million tokens. */
const PICO_PER_TOKEN = 1_000_000;
const NANO = 1_000_000_000;

const PROVIDER = [
  'order',
  'only',
  'ignore',
  'allow_fallbacks',
  'sort',
  'require_parameters',
  'zdr',
  'data_collection',
  'quantizations',
  'require',
  'max_price',
];
const MAX_PRICE = ['prompt', 'completion', 'request'];
const SORT = ['by', 'partition'];
const GATEWAY = ['order', 'only', 'sort', 'zeroDataRetention', 'disallowPromptTraining'];

/**
 * Reads `models` and `provider`, in the form that OpenRouter gave them, and `providerOptions.gateway`, in Vercel's.
 *
 * @param allowed - the fields that this client may use
 * @throws {InvalidRequestError} naming the field that can't be followed
 */
export function readClientRouting(
  chunks: BodyChunks,
  fields: readonly RoutingField[],
  allowed: ClientRoutingFields,
): ClientRouting {
  const body = concatChunks(chunks);
  const values = new Map(fields.map((field) => [field.name, parse(body, field)]));
  const options = objectMembers(values.get('providerOptions'), 'providerOptions', ['gateway']);
  const gateway = options.get('gateway');
  if (gateway === undefined || gateway === null) return fromOpenRouter(values);
  for (const name of ['provider', 'models']) {
    if ((values.get(name) ?? null) !== null) throw conflictingFields(name, 'providerOptions.gateway');
  }
  const known = allowed.has('models') ? ['models', ...GATEWAY] : GATEWAY;
  return fromGateway(objectMembers(gateway, 'providerOptions.gateway', known));
}

function fromOpenRouter(values: ReadonlyMap<string, unknown>): ClientRouting {
  const provider = objectMembers(values.get('provider'), 'provider', PROVIDER);
  return {
    models: nameList(values.get('models'), 'models'),
    order: nameList(provider.get('order'), 'provider.order'),
    only: nameList(provider.get('only'), 'provider.only'),
    ignore: nameList(provider.get('ignore'), 'provider.ignore'),
    allowFallbacks: flag(provider, 'allow_fallbacks', 'provider') ?? true,
    sort: sortOf(provider.get('sort'), 'provider.sort'),
    requireParameters: flag(provider, 'require_parameters', 'provider') ?? false,
    require: requiredOf(provider),
    maxPrice: maxPriceOf(provider.get('max_price')),
    choosesProviders: values.has('provider') || values.has('providerOptions'),
  };
}

function fromGateway(gateway: ReadonlyMap<string, unknown>): ClientRouting {
  const path = 'providerOptions.gateway';
  const isZdr = flag(gateway, 'zeroDataRetention', path) ?? false;
  const isUntrained = flag(gateway, 'disallowPromptTraining', path) ?? false;
  return {
    models: nameList(gateway.get('models'), `${path}.models`),
    order: nameList(gateway.get('order'), `${path}.order`),
    only: nameList(gateway.get('only'), `${path}.only`),
    ignore: undefined,
    allowFallbacks: true,
    sort: sortOf(gateway.get('sort'), `${path}.sort`),
    requireParameters: false,
    require: [...(isZdr ? [ZDR] : []), ...(isUntrained ? [UNTRAINED] : [])],
    maxPrice: undefined,
    choosesProviders: true,
  };
}

/** A word, or OpenRouter's `{ by, partition }`. */
function sortOf(value: unknown, path: string): ClientSort | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'object') return { by: sortWord(value, path), acrossModels: false };
  const members = objectMembers(value, path, SORT);
  const partition = members.get('partition') ?? 'model';
  if (partition !== 'model' && partition !== 'none')
    throw invalidType(`${path}.partition`, '"model" or "none"');
  return { by: sortWord(members.get('by'), `${path}.by`), acrossModels: partition === 'none' };
}

function sortWord(value: unknown, path: string): SortStrategy {
  const by = typeof value === 'string' ? SORT_WORDS.get(value) : undefined;
  if (by) return by;
  const words = [...SORT_WORDS.keys()].map((word) => JSON.stringify(word));
  throw invalidType(path, `one of ${words.join(', ')}`);
}

const ZDR: RequiredLabel = { name: 'zdr', values: [true], by: 'request' };
const UNTRAINED: RequiredLabel = { name: 'training', values: [false], by: 'request' };

/** The labels that stand for OpenRouter's words, and those of `require`. */
function requiredOf(provider: ReadonlyMap<string, unknown>): readonly RequiredLabel[] {
  const collection = provider.get('data_collection') ?? 'allow';
  if (collection !== 'allow' && collection !== 'deny') {
    throw invalidType('provider.data_collection', '"allow" or "deny"');
  }
  const quantization: unknown = provider.get('quantizations') ?? undefined;
  if (quantization !== undefined && !(Array.isArray(quantization) && areRequirements({ quantization }))) {
    throw invalidType('provider.quantizations', `an array of 1 to ${MAX_LABELS} words, or null`);
  }
  return [
    ...(flag(provider, 'zdr', 'provider') ? [ZDR] : []),
    ...(collection === 'deny' ? [UNTRAINED] : []),
    ...(quantization === undefined ? [] : requiredLabels({ quantization }, 'request')),
    ...ownLabels(provider.get('require') ?? {}),
  ];
}

function ownLabels(given: unknown): readonly RequiredLabel[] {
  const path = 'provider.require';
  try {
    return requiredLabels(parseRequirements(given, path), 'request');
  } catch (error) {
    throw new InvalidRequestError(
      'invalid_type',
      `The field ${asError(error).message.slice(0, MAX_REASON_LENGTH)}.`,
      path,
    );
  }
}

function maxPriceOf(value: unknown): MaxPrice | undefined {
  const members = objectMembers(value, 'provider.max_price', MAX_PRICE);
  if (members.size === 0) return undefined;
  return {
    prompt: priceMember(members, 'prompt', PICO_PER_TOKEN),
    completion: priceMember(members, 'completion', PICO_PER_TOKEN),
    request: priceMember(members, 'request', NANO),
  };
}

/** Of USD, a number or its text. The smallest unit rounds down: a price may not be above what was said. */
function priceMember(members: ReadonlyMap<string, unknown>, name: string, units: number): bigint | undefined {
  const value = members.get(name);
  if (value === undefined || value === null) return undefined;
  const usd = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof usd !== 'number' || !(usd >= 0 && usd <= MAX_USD)) {
    throw invalidType(`provider.max_price.${name}`, `a number of USD from 0 to ${MAX_USD}, or null`);
  }
  return BigInt(Math.floor(Number((usd * units).toFixed(3))));
}

function parse(body: Buffer, { name, value: { start, end } }: RoutingField): unknown {
  if (end - start > MAX_FIELD_BYTES) throw invalidType(name, `of at most ${MAX_FIELD_BYTES} bytes`);
  return JSON.parse(body.toString('utf8', start, end));
}

/** The members of an object, which may have only known names; null counts as an empty object. */
function objectMembers(value: unknown, path: string, known: readonly string[]): ReadonlyMap<string, unknown> {
  if (value === undefined || value === null) return new Map();
  if (typeof value !== 'object' || Array.isArray(value)) throw invalidType(path, 'an object or null');
  for (const name of Object.keys(value)) {
    if (known.includes(name)) continue;
    throw new InvalidRequestError(
      'unsupported_parameter',
      `The field "${path}" takes ${known.join(', ')} here, not ${JSON.stringify(name.slice(0, 60))}.`,
      path,
    );
  }
  return new Map(Object.entries(value));
}

/** Undefined if missing or null. */
function flag(members: ReadonlyMap<string, unknown>, name: string, path: string): boolean | undefined {
  const value = members.get(name) ?? undefined;
  if (value !== undefined && typeof value !== 'boolean') throw invalidType(`${path}.${name}`, 'a boolean');
  return value;
}

function nameList(value: unknown, path: string): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const isList =
    Array.isArray(value) &&
    value.length <= MAX_NAMES &&
    value.every((name): name is string => typeof name === 'string');
  if (!isList) throw invalidType(path, `an array of at most ${MAX_NAMES} strings, or null`);
  return value;
}
