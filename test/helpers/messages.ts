import { globSync, readFileSync } from 'node:fs';

import { parseAst } from 'vite';

/** Who reads a message, and so how it is written. */
export type MessageKind =
  | 'API response'
  | 'Option or argument error'
  | 'Other error'
  | 'Command line error'
  | 'Command line summary'
  | 'Command line option'
  | 'Command line output'
  | 'Check result'
  | 'Admin API summary'
  | 'Usage page'
  | 'Part or description';

/** A message in the source, with `{name}` for each value in it. */
export interface Message {
  readonly kind: MessageKind;
  /** Class of the error, name of the property or function. */
  readonly source: string;
  readonly text: string;
  /** Below `src/`. */
  readonly file: string;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [member: string]: unknown;
}

const SRC = new URL('../../src/', import.meta.url).pathname;

/** Built files, and of the demo what its model says and the programs to paste. */
const NOT_MESSAGES =
  /\.(generated|d)\.ts$|^cli\/demo\/(parrot\/|banner\.ts$)|^account\/page\/playground\/snippets\.ts$/;

/** Every message in the source that clients, developers or operators see. */
export function messagesInSource(): readonly Message[] {
  const files = globSync('**/*.{ts,tsx}', { cwd: SRC }).filter((file) => !NOT_MESSAGES.test(file));
  return files.sort().flatMap((file) => messagesIn(file, readFileSync(SRC + file, 'utf8')));
}

/** @param file - below `src/`: decides the kind of some messages */
export function messagesIn(file: string, source: string): readonly Message[] {
  const program = parseAst(source, { lang: file.endsWith('x') ? 'tsx' : 'ts' }) as unknown as Node;
  const texts = new Texts(source, constantsIn(program));
  const messages: Message[] = [];
  walk(program, (node) => {
    for (const { kind, source: name, expressions } of messageExpressions(node, file)) {
      const found = expressions.map((each) => texts.of(each)).find((each) => each.some(hasWords));
      for (const text of found?.filter(hasWords) ?? []) messages.push({ kind, source: name, text, file });
    }
  });
  // SQL and Lua aren't read by users.
  if (/^ledger\/stores\/(redis|sqlite)\//.test(file)) return messages;
  const [folder = ''] = file.split('/');
  walk(program, (node) => {
    if (!isString(node) || texts.used.has(node)) return;
    for (const text of texts.of(node)) {
      if (hasPhrase(text)) messages.push({ kind: 'Part or description', source: folder, text, file });
    }
  });
  return messages;
}

/** Constants by name, but not names that the file declares twice. */
function constantsIn(program: Node): ReadonlyMap<string, Node> {
  const constants = new Map<string, Node>();
  const declared: string[] = [];
  const declare = (pattern: unknown): void => {
    if (isNode(pattern))
      walk(pattern, ({ type, name }) => type === 'Identifier' && declared.push(String(name)));
  };
  walk(program, ({ type, id, init, params }) => {
    for (const param of nodes(params)) declare(param);
    if (type !== 'VariableDeclarator' || !isNode(id)) return;
    declare(id);
    if (id.type === 'Identifier' && isNode(init)) constants.set(nameOf(id), init);
  });
  const repeated = declared.filter((name, n) => declared.indexOf(name) !== n);
  for (const name of repeated) constants.delete(name);
  return constants;
}

interface MessageExpressions {
  readonly kind: MessageKind;
  readonly source: string;
  /** The first one with words is the message. */
  readonly expressions: readonly Node[];
}

function messageExpressions(node: Node, file: string): readonly MessageExpressions[] {
  const { type, callee, superClass, key, value } = node;
  const args = nodes(node['arguments']);
  const name = isNode(callee) ? nameOf(callee) : '';
  if (type === 'NewExpression' && name.endsWith('Error')) {
    return [{ kind: errorKind(name, file), source: name, expressions: args }];
  }
  if (type === 'CallExpression' && /^[a-z]+Error$/.test(name) && args.length > 2) {
    const [option, wanted] = args as [Node, Node];
    const quasis = ['', ' must be ', ', got …'].map((cooked) => ({
      type: 'TemplateElement',
      value: { cooked },
    }));
    const message = { ...node, type: 'TemplateLiteral', quasis, expressions: [option, wanted] };
    return [{ kind: 'Option or argument error', source: 'TypeError', expressions: [message] }];
  }
  if (type === 'ClassDeclaration' && isNode(superClass) && nameOf(superClass).endsWith('Error')) {
    const className = nameOf(node['id'] as Node);
    const kind = errorKind(className, file);
    return supers(node).map((expressions) => ({ kind, source: className, expressions }));
  }
  if (type === 'JSXText') return [{ kind: 'Usage page', source: 'text', expressions: [node] }];
  if (type === 'Property' && isNode(key) && isNode(value)) {
    const kind = propertyKind(nameOf(key), file);
    return kind ? [{ kind, source: nameOf(key), expressions: [value] }] : [];
  }
  const isOutput = file.startsWith('cli/') && /^(print|progress|log|error)$/.test(name);
  return type === 'CallExpression' && isOutput
    ? [{ kind: 'Command line output', source: name, expressions: args.slice(0, 1) }]
    : [];
}

/** Classes of errors that aren't sent to clients as they are. */
const OTHER_ERRORS = ['Error', 'ApiKeyConflictError', 'ClientDisconnectedError', 'RouterClosedError'];

function errorKind(name: string, file: string): MessageKind {
  if (name === 'ApiError') return 'Usage page';
  if (name === 'TypeError' || name === 'RangeError') return 'Option or argument error';
  if (file.startsWith('cli/')) return 'Command line error';
  if (file.startsWith('ledger/') || OTHER_ERRORS.includes(name)) return 'Other error';
  return 'API response';
}

function propertyKind(name: string, file: string): MessageKind | undefined {
  if (name === 'help') return 'Command line option';
  if (name === 'problem') return 'Check result';
  if (name !== 'summary') return undefined;
  return file.startsWith('cli/') ? 'Command line summary' : 'Admin API summary';
}

/** Arguments of the `super(…)` calls of a class. */
function supers(declaration: Node): readonly (readonly Node[])[] {
  const calls: (readonly Node[])[] = [];
  walk(declaration, ({ type, callee, arguments: args }) => {
    if (type === 'CallExpression' && isNode(callee) && callee.type === 'Super') calls.push(nodes(args));
  });
  return calls;
}

/** Reads the texts of expressions in one file. */
class Texts {
  /** Strings that were read. */
  readonly used = new Set<Node>();
  readonly #source: string;
  readonly #constants: ReadonlyMap<string, Node>;

  constructor(source: string, constants: ReadonlyMap<string, Node>) {
    this.#source = source;
    this.#constants = constants;
  }

  /** The texts that an expression can have, with `{name}` in place of values that aren't known in the source. */
  of(node: Node): readonly string[] {
    const of = (other: unknown): readonly string[] => this.of(other as Node);
    if (isString(node)) this.used.add(node);
    switch (node.type) {
      case 'Literal':
        return [String(node['value'])];
      case 'JSXText':
        return [String(node['value']).replaceAll(/\s+/g, ' ').trim()];
      case 'TemplateLiteral':
        return concatenated(
          nodes(node['quasis']).flatMap(({ value }, n) => {
            const expression = nodes(node['expressions'])[n];
            const { cooked } = value as { readonly cooked: string };
            return [[cooked], ...(expression ? [of(expression)] : [])];
          }),
        );
      case 'BinaryExpression':
        return this.#isText(node)
          ? concatenated([of(node['left']), of(node['right'])])
          : [this.#placeholder(node)];
      case 'ConditionalExpression':
        return [...of(node['consequent']), ...of(node['alternate'])];
      case 'ArrowFunctionExpression':
        return of(node['body']);
      case 'ObjectExpression':
        return nodes(node['properties']).flatMap(({ value }) => (isNode(value) ? of(value) : []));
      case 'MemberExpression':
        return node['computed'] && this.#isText(node['object'])
          ? of(node['object'])
          : [this.#placeholder(node)];
      case 'Identifier':
        return this.#isText(node) ? of(this.#constants.get(nameOf(node))) : [this.#placeholder(node)];
      default:
        return [this.#placeholder(node)];
    }
  }

  #placeholder(value: Node): string {
    if (value.type === 'CallExpression') return this.#placeholder(shownArgument(value));
    const code = this.#source.slice(value.start, value.end).replaceAll('?.', '.');
    return /^[\w.]{1,40}$/.test(code) ? `{${code}}` : '{…}';
  }

  /** Whether an expression is a text or an object of texts, or the name of one. */
  #isText(node: unknown): boolean {
    if (!isNode(node)) return false;
    switch (node.type) {
      case 'Identifier': {
        const constant = this.#constants.get(nameOf(node));
        return constant !== undefined && constant.type !== 'Identifier' && this.#isText(constant);
      }
      case 'ObjectExpression':
        return nodes(node['properties']).every((property) => this.#isText(property['value']));
      case 'ConditionalExpression':
        return this.#isText(node['consequent']) && this.#isText(node['alternate']);
      case 'BinaryExpression':
        return node['operator'] === '+' && (this.#isText(node['left']) || this.#isText(node['right']));
      default:
        return isString(node);
    }
  }
}

/** What a call in a message shows: `name` of `JSON.stringify(name)` or `name.slice(0, 9)`, else the function's name. */
function shownArgument({ callee, arguments: args }: Node): Node {
  const [argument] = nodes(args);
  const called = callee as Node;
  if (argument && /^(stringify|quote|abbreviate|String|show|formatUsd|plural|time)$/.test(nameOf(called)))
    return argument;
  return isNode(called['object']) ? called['object'] : called;
}

function concatenated(parts: readonly (readonly string[])[]): readonly string[] {
  const all = parts.reduce<readonly string[]>(
    (texts, next) => texts.flatMap((text) => next.map((each) => text + each)),
    [''],
  );
  return all.length > 16 ? all.slice(0, 16) : all;
}

function isString({ type, value }: Node): boolean {
  return type === 'TemplateLiteral' || (type === 'Literal' && typeof value === 'string');
}

function hasWords(text: string): boolean {
  return /[a-z]{2}.* /i.test(text.replaceAll(/\{[^}]*\}/g, ''));
}

/** Whether a text has three words in a row, and so is for people; the address of a source isn't. */
function hasPhrase(text: string): boolean {
  return /[a-z]+ [a-z]+ [a-z]/.test(text) && !/^[\w-]+(\.[\w-]+)+[/:]/.test(text);
}

function nameOf(node: Node): string {
  const { name, property, value } = node;
  if (isNode(property)) return nameOf(property);
  return [name, value].find((each) => typeof each === 'string') ?? '';
}

/** Visits a node and all below it, but no types. */
function walk(node: Node, visit: (node: Node) => void): void {
  if (/^TS(TypeA|Inter|Liter|TypeP)/.test(node.type ?? '')) return;
  visit(node);
  for (const child of Object.values(node)) {
    for (const each of Array.isArray(child) ? child : [child]) if (isNode(each)) walk(each, visit);
  }
}

function nodes(value: unknown): readonly Node[] {
  return Array.isArray(value) ? value.filter(isNode) : [];
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}
