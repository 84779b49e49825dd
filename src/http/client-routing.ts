import { InvalidRequestError } from '../errors/errors.ts';
import type { ClientRoutingFields } from '../options/resolve-options.ts';
import { concatChunks, type BodyChunks } from './body-chunks.ts';
import type { Span } from './splice-request.ts';

/** Where a client's choice among models and providers stands in its body. */
export interface ControlField extends Span {
  readonly name: string;
  /** Its value; the span itself is the whole member, from its key on. */
  readonly value: Span;
}

/** A client's choice among models and providers; those that it did not make are undefined. */
export interface ClientRouting {
  /** IDs of the models to ask after the request's own, in this order. */
  readonly models: readonly string[] | undefined;
  /** Names of the providers to ask first, in this order. */
  readonly order: readonly string[] | undefined;
  readonly only: readonly string[] | undefined;
  readonly ignore: readonly string[] | undefined;
  /** False: nobody is asked but those of `order`, or the first target where there is none. */
  readonly allowFallbacks: boolean;
}

/** More is no choice among providers. */
const LONGEST = 16_384;
const MAX_NAMES = 32;

const PROVIDER = ['order', 'only', 'ignore', 'allow_fallbacks'];
const GATEWAY = ['order', 'only', 'models'];

/**
 * Reads OpenRouter's `models` and `provider` and Vercel's `providerOptions.gateway`; undefined where there is none of them.
 *
 * @throws {InvalidRequestError} naming what can't be obeyed
 */
export function readClientRouting(
  pieces: BodyChunks,
  fields: readonly ControlField[],
  allowed: ClientRoutingFields,
): ClientRouting | undefined {
  if (fields.length === 0) return undefined;
  const body = concatChunks(pieces);
  const values = new Map(fields.map((field) => [field.name, parse(body, field)]));
  const provider = record(values.get('provider'), 'provider', PROVIDER);
  const options = record(values.get('providerOptions'), 'providerOptions', ['gateway']);
  const gateway = record(
    options.get('gateway'),
    'providerOptions.gateway',
    allowed.has('models') ? GATEWAY : ['order', 'only'],
  );
  const allowFallbacks = provider.get('allow_fallbacks') ?? true;
  if (typeof allowFallbacks !== 'boolean') throw wrongType('provider.allow_fallbacks', 'a boolean');
  const either = (name: 'order' | 'only'): readonly string[] | undefined =>
    oneOf(
      [names(provider.get(name), `provider.${name}`), `provider.${name}`],
      [names(gateway.get(name), `providerOptions.gateway.${name}`), `providerOptions.gateway.${name}`],
    );
  return {
    models: oneOf(
      [names(values.get('models'), 'models'), 'models'],
      [names(gateway.get('models'), 'providerOptions.gateway.models'), 'providerOptions.gateway.models'],
    ),
    order: either('order'),
    only: either('only'),
    ignore: names(provider.get('ignore'), 'provider.ignore'),
    allowFallbacks,
  };
}

function parse(body: Buffer, { name, value: { start, end } }: ControlField): unknown {
  if (end - start > LONGEST) throw wrongType(name, `of at most ${LONGEST} bytes`);
  return JSON.parse(body.toString('utf8', start, end));
}

/** Members of an object of which all are known; null is none. */
function record(value: unknown, path: string, known: readonly string[]): ReadonlyMap<string, unknown> {
  if (value === undefined || value === null) return new Map();
  if (typeof value !== 'object' || Array.isArray(value)) throw wrongType(path, 'an object or null');
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

function names(value: unknown, path: string): readonly string[] | undefined {
  if (value === undefined || value === null) return undefined;
  const isList =
    Array.isArray(value) &&
    value.length <= MAX_NAMES &&
    value.every((name): name is string => typeof name === 'string');
  if (!isList) throw wrongType(path, `an array of at most ${MAX_NAMES} strings, or null`);
  return value;
}

type Given = readonly [names: readonly string[] | undefined, path: string];

function oneOf([first, firstPath]: Given, [second, secondPath]: Given): readonly string[] | undefined {
  if (first && second) {
    throw new InvalidRequestError(
      'ambiguous_parameter',
      `The fields "${firstPath}" and "${secondPath}" say the same; send one of them.`,
      firstPath,
    );
  }
  return first ?? second;
}

function wrongType(path: string, wanted: string): InvalidRequestError {
  return new InvalidRequestError('invalid_type', `The field "${path}" must be ${wanted}.`, path);
}
