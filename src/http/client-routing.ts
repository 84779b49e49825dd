import { InvalidRequestError } from '../errors/request-errors.ts';
import { areRequirements, type RequiredLabel, requiredLabels } from '../options/labels.ts';
import { concatChunks, type BodyChunks } from './body-chunks.ts';
import { invalidType } from './field-errors.ts';
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
  /** False: only the providers of `order` are tried, or without an `order` the first target. */
  readonly allowFallbacks: boolean;
  /** Labels that targets must have. */
  readonly require: readonly RequiredLabel[];
  /** The highest prices that a target may have for the client; undefined for any. */
  readonly maxPrice: MaxPrice | undefined;
  /** The request has the field `provider`, so that its client may know the names of providers. */
  readonly choosesProviders: boolean;
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
const MAX_USD = 1_000_000;
/** Prices are in USD a million tokens. */
const PICO_PER_TOKEN = 1_000_000;
const NANO = 1_000_000_000;

const PROVIDER = [
  'order',
  'only',
  'ignore',
  'allow_fallbacks',
  'zdr',
  'data_collection',
  'quantizations',
  'require',
  'max_price',
];
const MAX_PRICE = ['prompt', 'completion', 'request'];

/**
 * Reads `models` and `provider`, in the form that OpenRouter gave them.
 *
 * @throws {InvalidRequestError} naming the field that can't be followed
 */
export function readClientRouting(chunks: BodyChunks, fields: readonly RoutingField[]): ClientRouting {
  const body = concatChunks(chunks);
  const values = new Map(fields.map((field) => [field.name, parse(body, field)]));
  const provider = objectMembers(values.get('provider'), 'provider', PROVIDER);
  const allowFallbacks = provider.get('allow_fallbacks') ?? true;
  if (typeof allowFallbacks !== 'boolean') throw invalidType('provider.allow_fallbacks', 'a boolean');
  return {
    models: nameList(values.get('models'), 'models'),
    order: nameList(provider.get('order'), 'provider.order'),
    only: nameList(provider.get('only'), 'provider.only'),
    ignore: nameList(provider.get('ignore'), 'provider.ignore'),
    allowFallbacks,
    require: requiredOf(provider),
    maxPrice: maxPriceOf(provider.get('max_price')),
    choosesProviders: values.has('provider'),
  };
}

/** The labels that stand for OpenRouter's words, and those of `require`. */
function requiredOf(provider: ReadonlyMap<string, unknown>): readonly RequiredLabel[] {
  const zdr = provider.get('zdr') ?? false;
  if (typeof zdr !== 'boolean') throw invalidType('provider.zdr', 'a boolean');
  const collection = provider.get('data_collection') ?? 'allow';
  if (collection !== 'allow' && collection !== 'deny') {
    throw invalidType('provider.data_collection', '"allow" or "deny"');
  }
  const quantizations = nameList(provider.get('quantizations'), 'provider.quantizations');
  const own: unknown = provider.get('require') ?? {};
  if (!areRequirements(own)) throw invalidType('provider.require', 'an object of labels, or null');
  return [
    ...(zdr ? [{ name: 'zdr', values: [true], by: 'request' as const }] : []),
    ...(collection === 'deny' ? [{ name: 'training', values: [false], by: 'request' as const }] : []),
    ...(quantizations ? [{ name: 'quantization', values: quantizations, by: 'request' as const }] : []),
    ...requiredLabels(own, 'request'),
  ];
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

function nameList(value: unknown, path: string): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const isList =
    Array.isArray(value) &&
    value.length <= MAX_NAMES &&
    value.every((name): name is string => typeof name === 'string');
  if (!isList) throw invalidType(path, `an array of at most ${MAX_NAMES} strings, or null`);
  return value;
}
