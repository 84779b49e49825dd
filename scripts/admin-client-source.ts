/** Writes the types and the tables of the clients of the admin and the account API (`src/client/`), from their OpenAPI documents. */
import { ADMIN_API } from '../src/admin/admin-router.ts';
import { endpoints } from '../src/admin/endpoints.ts';
import { ACCOUNT_API } from '../src/account/account-router.ts';
import { endpoints as accountEndpoints } from '../src/account/endpoints.ts';
import { openApi } from '../src/json-api/openapi.ts';

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly pattern?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | false;
  readonly description?: string;
}

interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>;

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** A function of the client. */
interface ClientFunction {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  /** In the path and the query, but for `format`, which the function decides. */
  readonly parameters: readonly Parameter[];
  readonly body: Schema | undefined;
  readonly query?: Readonly<Record<string, string>>;
  /** Undefined for text. */
  readonly answer: Schema | undefined;
}

const HEADER =
  '// Made by scripts/admin-client-source.ts of src/admin/: `npm test -- test/unit/admin-client -u` makes it again.\n';

const admin: Document = JSON.parse(openApi(endpoints, ADMIN_API).toString());
const account: Document = JSON.parse(openApi(accountEndpoints, ACCOUNT_API).toString());
/** Those that both have are the same. */
const schemas = { ...admin.components.schemas, ...account.components.schemas };

/** What needs no type: the client makes its own error of it, or it has no members. */
function needsType(name: string, { type, properties }: Schema): boolean {
  const isEmpty = type === 'object' && Object.keys(properties ?? {}).length === 0;
  return isNamed(name) && name !== 'Error' && !isEmpty;
}

/** `src/client/admin-api.generated.ts`: the components as types, and the interface of the client. */
export function typesSource(): string {
  const types = Object.entries(schemas).flatMap(([name, schema]) =>
    needsType(name, schema) ? `${docs(schema.description)}${declaration(name, schema)}` : [],
  );
  return [
    `${HEADER}import type { CallOptions, ChangeOptions } from './call-options.ts';\n`,
    ...types,
    interfaceOf('AdminClient', 'admin', admin),
    interfaceOf('AccountClient', 'account', account),
  ].join('\n');
}

function interfaceOf(client: string, api: string, document: Document): string {
  const functions = clientFunctions(document).map((each) => {
    const about = `${each.summary}. \`${each.method} ${each.path}\``;
    return `${docs(about, '  ')}  ${signature(each)}`;
  });
  return `/** A function for each operation of the ${api} API. */\nexport interface ${client} {\n${functions.join('\n')}\n}\n`;
}

/** `src/client/operations.generated.ts`: what requests need of each operation. */
export function tableSource(): string {
  return `${HEADER}\n${tableOf('OPERATIONS', admin)}\n${tableOf('ACCOUNT_OPERATIONS', account)}`;
}

function tableOf(name: string, document: Document): string {
  const rows = clientFunctions(document).map(({ name: each, method, path, body, query, answer }) => {
    const row = {
      method,
      path,
      hasBody: body !== undefined,
      ...(query && { query }),
      answer: answer ? 'json' : 'text',
    };
    return `  ${each}: ${JSON.stringify(row)},`;
  });
  return `/** By the name of its function. */\nexport const ${name} = {\n${rows.join('\n')}\n} as const;\n`;
}

function clientFunctions(document: Document): readonly ClientFunction[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) =>
      functionsOf(method.toUpperCase(), path, operation),
    ),
  );
}

/** One, and another for CSV where the operation has it. */
function functionsOf(method: string, path: string, operation: Operation): readonly ClientFunction[] {
  const { operationId: name, summary, parameters = [], requestBody, responses } = operation;
  const content = Object.values(responses).find((each) => each.content)?.content ?? {};
  const body = requestBody?.content['application/json']?.schema;
  const sent = parameters.filter(({ in: place, name: each }) => place !== 'header' && each !== 'format');
  if (body && sent.some(({ in: place }) => place === 'query')) {
    throw new TypeError(`${name} has a query and a body: its input would be ambiguous`);
  }
  const json = content['application/json']?.schema;
  const common = { name, method, path, summary, parameters: sent, body, answer: json };
  const csv = { ...common, name: `${name}Csv`, query: { format: 'csv' }, answer: undefined };
  if (!content['text/csv']) return [common];
  return [
    { ...common, summary: summary.replace(', as JSON or CSV', '') },
    { ...csv, summary: summary.replace('JSON or ', '') },
  ];
}

function signature({ name, method, parameters, body, answer }: ClientFunction): string {
  const own = parameters.map(
    ({ name: each, required, schema }) => `readonly ${each}${required ? '' : '?'}: ${typeOf(schema)}`,
  );
  const parts = [
    ...(own.length > 0 ? [`{ ${own.join('; ')} }`] : []),
    ...(body && hasMembers(body) ? [typeOf(body)] : []),
  ];
  const isOptional = !body && !parameters.some(({ required }) => required);
  const input = parts.length > 0 ? parts.join(' & ') : 'Readonly<Record<string, never>>';
  const options = method === 'GET' ? 'CallOptions' : 'ChangeOptions';
  const result = answer ? typeOf(answer) : 'string';
  return `${name}(input${isOptional ? '?' : ''}: ${input}, options?: ${options}): Promise<${result}>;`;
}

function hasMembers({ $ref = '' }: Schema): boolean {
  const name = nameOf($ref);
  return needsType(name, schemas[name] ?? {});
}

function declaration(name: string, schema: Schema): string {
  return schema.properties
    ? `export interface ${name} ${membersOf(schema, '')}\n`
    : `export type ${name} = ${typeOf(schema)};\n`;
}

function membersOf({ properties = {}, required = [] }: Schema, indent: string): string {
  const members = Object.entries(properties).map(([name, schema]) => {
    const optional = required.includes(name) ? '' : '?';
    return `${docs(schema.description, `${indent}  `)}${indent}  readonly ${name}${optional}: ${typeOf(schema, `${indent}  `)};\n`;
  });
  return members.length === 0 ? '{}' : `{\n${members.join('')}${indent}}`;
}

function typeOf(schema: Schema, indent = ''): string {
  if (schema.$ref !== undefined) return referenced(schema.$ref, indent);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.anyOf) return schema.anyOf.map((each) => typeOf(each, indent)).join(' | ');
  switch (schema.type) {
    case 'array':
      return `readonly (${typeOf(schema.items ?? {}, indent)})[]`;
    case 'object':
      if (schema.additionalProperties) {
        return `Readonly<Record<string, ${typeOf(schema.additionalProperties, indent)}>>`;
      }
      return schema.properties ? membersOf(schema, indent) : 'Readonly<Record<string, unknown>>';
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
      return listType(schema.pattern ?? '') ?? 'string';
    case 'boolean':
    case 'null':
      return schema.type;
    default:
      throw new TypeError(`The client has no type for ${JSON.stringify(schema)}`);
  }
}

/** The type of a comma-separated list in a query (`listInQuery`); undefined for a pattern of anything else. */
function listType(pattern: string): string | undefined {
  const [, member] = /^\^\(\?:(.+)\)\(\?:,\(\?:\1\)\)\*\$$/.exec(pattern) ?? [];
  if (member === undefined) return undefined;
  const names = member.split('|').map((name) => {
    const [, prefix] = /^([a-z]+:)\[/.exec(name) ?? [];
    return prefix === undefined ? `'${name}'` : `\`${prefix}\${string}\``;
  });
  return `readonly (${names.join(' | ')})[]`;
}

/** A component by its name; one that its file gave none is written out. */
function referenced(reference: string, indent: string): string {
  const name = nameOf(reference);
  return isNamed(name) ? name : typeOf(schemas[name] ?? {}, indent);
}

function nameOf(reference: string): string {
  return reference.replace('#/components/schemas/', '');
}

function isNamed(component: string): boolean {
  return /^[A-Z]/.test(component);
}

function docs(text: string | undefined, indent = ''): string {
  return text === undefined ? '' : `${indent}/** ${text.replaceAll('*/', '* /')} */\n`;
}
