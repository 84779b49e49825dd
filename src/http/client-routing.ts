import { InvalidRequestError } from '../errors/request-errors.ts';
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
}

/** Longer fields are rejected. */
const MAX_FIELD_BYTES = 16_384;
const MAX_NAMES = 32;

const PROVIDER = ['order', 'only', 'ignore', 'allow_fallbacks'];

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
  };
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
