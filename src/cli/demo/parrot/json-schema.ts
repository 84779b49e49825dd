import type { Words } from './words.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Deeper than this only what must be is filled in, so that schemas which contain themselves end. */
const FULL_DEPTH = 3;
const MAX_VALUES = 1_000;
const MAX_LENGTH = 1_000;
/** References and branches that are followed for one value: those of hostile schemas lead to twice as many each. */
const MAX_STEPS = 100;

/**
 * Makes up a value that a JSON Schema accepts, out of the words and numbers of a message.
 *
 * Knows what tools and structured outputs use: `type`, `enum`, `const`, `properties`,
 * `required`, `items`, `anyOf`, `oneOf`, `allOf`, `$ref`, and the usual bounds and formats.
 * A `pattern` is not looked at: it could keep the process busy for minutes.
 */
export function instanceOf(root: unknown, words: Words): unknown {
  let values = 0;
  const turns = new Map<readonly unknown[], readonly unknown[]>();
  return fill(root, 0, 0);

  /** @param nth - place in the list around it; a list's items take their turns in an enum */
  function fill(value: unknown, depth: number, nth: number): unknown {
    if (++values > MAX_VALUES) return null;
    const deep = depth > FULL_DEPTH;
    const schema = resolve(value, root, deep);
    if ('const' in schema) return schema['const'];
    const options = list(schema['enum']);
    if (options.length > 0) return choose(options, nth);
    switch (typeOf(schema, deep)) {
      case 'object':
        return fillObject(schema, depth);
      case 'array':
        return fillArray(schema, depth);
      case 'integer':
        return fillNumber(schema, words, 1);
      case 'number':
        return fillNumber(schema, words, 0);
      case 'boolean':
        return true;
      case 'null':
        return null;
      default:
        return fillString(schema, words);
    }
  }

  /** The options that the message mentions, then the others, each in its turn. */
  function choose(options: readonly unknown[], nth: number): unknown {
    let inTurn = turns.get(options);
    if (!inTurn) {
      const mentioned = options.filter((option) => typeof option === 'string' && words.mentions(option));
      inTurn = [...new Set([...mentioned, ...options])];
      turns.set(options, inTurn);
    }
    return inTurn[nth % options.length];
  }

  function fillObject(schema: Schema, depth: number): Record<string, unknown> {
    const properties = asObject(schema['properties']);
    const optional = depth < FULL_DEPTH ? Object.keys(properties) : [];
    const names = new Set([...optional, ...list(schema['required']).map(String)]);
    return Object.fromEntries([...names].map((name) => [name, fill(properties[name], depth + 1, 0)]));
  }

  function fillArray(schema: Schema, depth: number): unknown[] {
    const least = Math.min(bound(schema['minItems'], 0), MAX_VALUES);
    const wanted = Math.max(least, depth < FULL_DEPTH ? 2 : 0);
    const length = Math.min(bound(schema['maxItems'], Infinity), wanted);
    const leading = list(schema['prefixItems']);
    const items: unknown[] = [];
    const known = new Set<string>();
    for (let turn = 0; items.length < length && turn < 10 * length && values <= MAX_VALUES; turn++) {
      const itemSchema = leading[items.length] ?? schema['items'];
      if (itemSchema === false) break;
      const item = fill(itemSchema, depth + 1, turn);
      if (schema['uniqueItems'] === true) {
        const json = JSON.stringify(item);
        if (known.has(json)) continue;
        known.add(json);
      }
      items.push(item);
    }
    return items;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Follows `$ref`, takes a branch of `anyOf` and `oneOf`, and puts `allOf` together.
 *
 * @param deep - take a branch that ends here, if there is one
 */
function resolve(value: unknown, root: unknown, deep: boolean, steps = { left: MAX_STEPS }): Schema {
  if (steps.left-- <= 0) return {};
  const { $ref, ...beside } = asObject(value);
  if (typeof $ref === 'string') return resolve({ ...pointTo(root, $ref), ...beside }, root, deep, steps);
  const { anyOf, oneOf, allOf, ...own } = beside;
  const branches = [...list(anyOf), ...list(oneOf)].map((branch) => resolve(branch, root, deep, steps));
  const branch =
    branches.find((option) => (deep ? isLeaf(option) : option['type'] !== 'null')) ?? branches[0];
  const parts = list(allOf).map((part) => resolve(part, root, deep, steps));
  return [...parts, ...(branch ? [branch] : [])].reduce(merge, own);
}

/** The schema's type; of several the first that isn't null, or null where it is deep enough. */
function typeOf(schema: Schema, deep: boolean): unknown {
  const types = [schema['type'] ?? guessType(schema)].flat();
  if (deep && types.includes('null')) return 'null';
  return types.find((type) => type !== 'null') ?? 'null';
}

function isLeaf(schema: Schema): boolean {
  const type = typeOf(schema, true);
  return type !== 'object' && type !== 'array';
}

function guessType(schema: Schema): string {
  if (Object.keys(asObject(schema['properties'])).length > 0) return 'object';
  if (list(schema['required']).length > 0) return 'object';
  if ('items' in schema || 'prefixItems' in schema) return 'array';
  return 'minimum' in schema || 'maximum' in schema ? 'number' : 'string';
}

function merge(schema: Schema, other: Schema): Schema {
  return {
    ...schema,
    ...other,
    properties: { ...asObject(schema['properties']), ...asObject(other['properties']) },
    required: [...list(schema['required']), ...list(other['required'])],
  };
}

/** What a local pointer such as `#/$defs/Node` points to. */
function pointTo(root: unknown, pointer: string): Schema {
  let target = root;
  for (const step of pointer.split('/').slice(1)) {
    target = asObject(target)[decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')];
  }
  return asObject(target);
}

/** The next number of the message if the schema accepts it, or else one near its bounds. */
function fillNumber(schema: Schema, words: Words, unit: 0 | 1): number {
  const least = bound(schema['minimum'], -Infinity);
  const most = bound(schema['maximum'], Infinity);
  const above = bound(schema['exclusiveMinimum'], -Infinity);
  const below = bound(schema['exclusiveMaximum'], Infinity);
  const multiple = bound(schema['multipleOf'], unit);
  const step = multiple || 0.5;
  const onStep = (number: number) => Number((Math.round(number / step) * step).toPrecision(12));
  const low = Math.max(least, above);
  const high = Math.min(most, below);
  const wanted = words.nextNumber();
  const nearby = [wanted, low, low + step, high, high - step].map(onStep);
  const candidates = multiple ? nearby : [wanted, ...nearby, (low + high) / 2];
  const accepted = candidates.find((n) => n >= least && n <= most && n > above && n < below);
  return accepted ?? wanted;
}

const FORMATS: Readonly<Record<string, string>> = {
  'date-time': '2026-01-01T12:00:00Z',
  date: '2026-01-01',
  time: '12:00:00Z',
  duration: 'PT1H',
  email: 'parrot@example.com',
  hostname: 'example.com',
  ipv4: '127.0.0.1',
  ipv6: '::1',
  uri: 'https://example.com/parrot',
  uuid: '00000000-0000-4000-8000-000000000000',
};

function fillString(schema: Schema, words: Words): string {
  const { format } = schema;
  if (typeof format === 'string' && FORMATS[format]) return FORMATS[format];
  const least = Math.min(bound(schema['minLength'], 0), MAX_LENGTH);
  const most = Math.min(bound(schema['maxLength'], Infinity), MAX_LENGTH);
  return words.nextWord().padEnd(least, '!').slice(0, most);
}

function bound(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function asObject(value: unknown): Schema {
  return isObject(value) ? value : {};
}
