import { quoted } from '../source-text.ts';

/** A reference to an environment variable in a config. */
export class Variable {
  readonly name: string;
  /** Text after its value, such as a path. */
  readonly suffix: string;
  /** Read for each request. */
  readonly isSecret: boolean;

  constructor(
    name: string,
    { suffix = '', isSecret = false }: { readonly suffix?: string; readonly isSecret?: boolean } = {},
  ) {
    this.name = name;
    this.suffix = suffix;
    this.isSecret = isSecret;
  }
}

/** A call of an imported function: `catalogPrices()`. In JSON it is the name of what the command line puts there. */
export class Call {
  readonly source: string;
  readonly json: string;

  constructor(source: string, json: string) {
    this.source = source;
    this.json = json;
  }
}

const WIDTH = 110;
/** Indentation of what stands on one line. */
const INLINE = ' ';

/** The value as TypeScript or JSON, indented. */
export function configSource(value: unknown, isJson: boolean, indent = ''): string {
  if (value instanceof Variable) return variableSource(value, isJson);
  if (value instanceof Call) return isJson ? JSON.stringify(value.json) : value.source;
  if (typeof value === 'string')
    return isJson ? JSON.stringify(value.replaceAll('${', '$${')) : quoted(value);
  if (typeof value !== 'object' || value === null) return String(value);
  const isList = Array.isArray(value);
  const parts = isList
    ? value.map((each: unknown) => (inner: string) => configSource(each, isJson, inner))
    : Object.entries(value)
        .filter(([, each]) => each !== undefined)
        .map(
          ([name, each]) =>
            (inner: string) =>
              `${nameSource(name, isJson)}: ${configSource(each, isJson, inner)}`,
        );
  const [open, close] = isList ? ['[', ']'] : ['{ ', ' }'];
  if (parts.length === 0) return isList ? '[]' : '{}';
  const line = `${open}${parts.map((part) => part(INLINE)).join(', ')}${close}`;
  if (indent !== '' && (indent === INLINE || line.length + indent.length < WIDTH)) return line;
  const lines = parts.map((part) => `${indent}  ${part(`${indent}  `)}`);
  // A comma after the last one is for TypeScript alone: other readers of the JSON than ours refuse it.
  return `${open.trim()}\n${lines.join(',\n')}${isJson ? '' : ','}\n${indent}${close.trim()}`;
}

function variableSource({ name, suffix, isSecret }: Variable, isJson: boolean): string {
  if (isJson) return JSON.stringify(`\${${name}}${suffix}`);
  if (suffix !== '') return `\`\${process.env.${name}}${suffix}\``;
  return isSecret ? `() => process.env.${name}` : `process.env.${name} ?? ''`;
}

function nameSource(name: string, isJson: boolean): string {
  return !isJson && /^[a-z_$][\w$]*$/i.test(name) ? name : isJson ? JSON.stringify(name) : quoted(name);
}
