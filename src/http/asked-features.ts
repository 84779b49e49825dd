import { InvalidRequestError } from '../errors/request-errors.ts';
import { KeyMatcher } from '../json/key-matcher.ts';
import { tokenHead, type JsonKind, type JsonToken, tokenText } from '../json/token.ts';
import type { AskedFeature } from '../metering/server-tool-fees.ts';
import { BILLED_FIELDS, GOOGLE_MEMBERS } from './billed-fields.ts';

/** The part of a request's tools that directly contains a value. */
export type ToolPosition = 'tools' | 'tool list' | 'tool' | 'tool function' | 'tool choice' | 'google';

type ToolMember = 'type' | 'name' | 'function' | 'tools' | 'allowed_tools' | 'google' | 'plain';

const FUNCTION = { name: 'name' } as const;
const TOOL = { type: 'type', ...FUNCTION, function: 'function', custom: 'function' } as const;
/** Members that describe a tool that the client runs. Any other member may be a tool of the provider's, as Google's are. */
const PLAIN_OF_FUNCTION = plain(
  'annotations,arguments,cache_control,defer_loading,description,examples,format,input_examples,metadata,output_schema,parameters,required,response,return,returns,strict,title,type',
);
const PLAIN_OF_TOOL = plain(
  'annotations,cache_control,defer_loading,description,eager_input_streaming,id,index,input_examples,metadata,parameters,strict,title',
);
const NO_KEYS = new KeyMatcher<ToolMember>({});
const KEYS: Readonly<Record<ToolPosition, KeyMatcher<ToolMember>>> = {
  tools: NO_KEYS,
  'tool list': NO_KEYS,
  tool: new KeyMatcher<ToolMember>({ ...PLAIN_OF_TOOL, ...TOOL }),
  'tool function': new KeyMatcher<ToolMember>({ ...PLAIN_OF_FUNCTION, ...FUNCTION }),
  'tool choice': new KeyMatcher<ToolMember>({ ...TOOL, tools: 'tools', allowed_tools: 'allowed_tools' }),
  google: new KeyMatcher<ToolMember>(
    Object.fromEntries(Object.keys(GOOGLE_MEMBERS).map((name) => [name, 'google' as const])),
  ),
};

/** Types of tools that the client runs itself. All others are, or may become, tools that a provider runs. */
const CLIENT_TOOLS: ReadonlySet<string> = new Set(['function', 'custom']);
/** Types of a `tool_choice` that don't name a provider's tool. */
const CLIENT_TOOL_CHOICES: ReadonlySet<string> = new Set([
  ...CLIENT_TOOLS,
  'allowed_tools',
  'tool',
  'auto',
  'any',
  'none',
  'required',
]);
/** Moonshot's type for its built-in functions, which have names with a dollar sign. */
const BUILT_IN = 'builtin_function';

/** No request needs more features, or longer names. */
const MAX_FEATURES = 32;
const MAX_NAME_LENGTH = 64;

/** A member of a tool that isn't known. */
interface OtherMember {
  readonly name: string;
  readonly path: string;
}

const NO_OTHERS: readonly OtherMember[] = [];

/** Finds features in a request that a provider may bill beside tokens. */
export class AskedFeatures {
  #found: Map<string, AskedFeature> | undefined;
  #member: ToolMember | undefined;
  #google = '';
  #list = '';
  #index = -1;
  /** The last key in a tool, if it isn't one that describes a tool. */
  #otherKey: string | undefined;
  /** Of the current tool: */
  #others: OtherMember[] | undefined;
  #isClientTool = false;
  #isTyped = false;
  #isBuiltIn = false;
  #isNamed = false;

  get all(): readonly AskedFeature[] {
    return this.#found ? [...this.#found.values()] : NO_FEATURES;
  }

  /** @throws {InvalidRequestError} if there are more than any model has prices for */
  add(name: string, kind: AskedFeature['kind'], path: string): void {
    const found = (this.#found ??= new Map<string, AskedFeature>());
    const before = found.get(name);
    if (before) {
      if (kind === 'part') found.set(name, { ...before, times: before.times + 1 });
      return;
    }
    if (name.length > MAX_NAME_LENGTH || found.size === MAX_FEATURES) throw unpriced(name, path);
    found.set(name, { name, kind, path, times: 1 });
  }

  /** A field of BILLED_FIELDS. */
  field(name: string, kind: JsonKind, token: JsonToken, path: string): void {
    if (kind === 'null' || kind === 'false') return;
    if (kind === 'string' && BILLED_FIELDS[name]?.includes(tokenText(token) ?? '')) return;
    this.add(name, 'field', path);
  }

  /** A value of `tools`, `functions` or `tool_choice` begins. Returns the position of its members. */
  begin(name: string, kind: JsonKind, path: string): 'tools' | 'tool choice' | undefined {
    this.#list = path;
    this.#index = -1;
    if (name === 'tool_choice') return kind === 'object' ? 'tool choice' : undefined;
    if (kind === 'object') this.add(name, 'tool', path);
    return 'tools';
  }

  key(within: ToolPosition, token: JsonToken): void {
    const match = KEYS[within].find(token);
    this.#member = match?.role;
    if (within === 'google' && match) this.#google = match.name;
    const isOther = match === undefined && (within === 'tool' || within === 'tool function');
    this.#otherKey = isOther ? (tokenText(token) ?? tokenHead(token, MAX_NAME_LENGTH + 1)) : undefined;
  }

  /** The position of the value's members; undefined if they don't matter. */
  value(within: ToolPosition, kind: JsonKind, token: JsonToken): ToolPosition | undefined {
    const member = this.#member;
    switch (within) {
      case 'tools':
      case 'tool list':
        this.#index += 1;
        this.#others = undefined;
        this.#isClientTool = false;
        this.#isTyped = false;
        this.#isBuiltIn = false;
        this.#isNamed = false;
        return kind === 'object' ? 'tool' : undefined;
      case 'google':
        if (member === 'google' && kind !== 'null') {
          const name = GOOGLE_MEMBERS[this.#google] ?? this.#google;
          this.add(name, 'field', name);
        }
        return undefined;
      default:
    }
    if (this.#otherKey !== undefined && kind !== 'null' && kind !== 'false') {
      this.#other(this.#otherKey, within === 'tool function' ? 'function.' : '');
    }
    if (member === 'type') this.#type(within, kind, token);
    else if (member === 'name' && kind === 'string') this.#name(token);
    else if (member === 'function' && kind === 'object') {
      this.#isTyped = true;
      this.#isClientTool = true;
      return 'tool function';
    } else if (member === 'allowed_tools' && kind === 'object') return 'tool choice';
    else if (member === 'tools' && kind === 'array') {
      this.#index = -1;
      return 'tool list';
    }
    return undefined;
  }

  /** A tool ends. */
  endTool(): void {
    const isOfTools = this.#list.endsWith('tools');
    const hasNoType = !this.#isTyped && !this.#isBuiltIn;
    // Members of a provider's own tool type are parameters of that tool.
    const others = (this.#isClientTool || hasNoType ? this.#others : undefined) ?? NO_OTHERS;
    for (const { name, path } of others) this.add(name, 'tool', path);
    // A built-in function is identified by its name.
    if (this.#isBuiltIn && !this.#isNamed) this.add(BUILT_IN, 'tool', this.#path('type'));
    // Google's own tools have no type.
    else if (hasNoType && isOfTools && others.length === 0) this.add('tools', 'tool', this.#path('type'));
  }

  #other(name: string, within: string): void {
    const path = this.#path(`${within}${name.slice(0, MAX_NAME_LENGTH)}`);
    const others = (this.#others ??= []);
    if (others.length === MAX_FEATURES) throw unpriced(name, path);
    others.push({ name, path });
  }

  #type(within: ToolPosition, kind: JsonKind, token: JsonToken): void {
    if (kind === 'null') return;
    const type = kind === 'string' ? tokenText(token) : undefined;
    const known = within === 'tool choice' ? CLIENT_TOOL_CHOICES : CLIENT_TOOLS;
    if (type === BUILT_IN) {
      this.#isBuiltIn = true;
      return;
    }
    this.#isTyped = true;
    if (type !== undefined && CLIENT_TOOLS.has(type)) this.#isClientTool = true;
    if (type === undefined || !known.has(type)) this.add(type ?? 'type', 'tool', this.#path('type'));
  }

  #name(token: JsonToken): void {
    const head = tokenHead(token, 1);
    if (head !== '$' && head !== '\\') return;
    const name = tokenText(token);
    if (name === undefined) this.add('$', 'tool', this.#path('function.name'));
    else if (name.startsWith('$')) {
      this.#isNamed = true;
      this.add(name, 'tool', this.#path('function.name'));
    }
  }

  #path(member: string): string {
    return this.#index < 0 ? `${this.#list}.${member}` : `${this.#list}[${this.#index}].${member}`;
  }
}

const NO_FEATURES: readonly AskedFeature[] = [];

function plain(names: string): Readonly<Record<string, 'plain'>> {
  return Object.fromEntries(names.split(',').map((name) => [name, 'plain' as const]));
}

/** Rejects a request whose feature has no price, for this model or for any. */
export function unpriced(name: string, path: string): InvalidRequestError {
  const what = JSON.stringify(name.slice(0, MAX_NAME_LENGTH));
  return new InvalidRequestError(
    'unpriced_feature',
    `Nothing was sent: this model has no price for ${what}, which its provider may bill separately.`,
    path,
  );
}
