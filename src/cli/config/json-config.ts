import { ConfigError } from './config-error.ts';

/**
 * A config in JSON, with comments and `${NAMES}` of the environment in its strings.
 *
 * `${NAME:-default}` has a default, `$${` is a plain `${`.
 *
 * @throws {ConfigError} naming the line, or each option whose variable isn't set
 */
export function parseJsonConfig(text: string, path: string, env: NodeJS.ProcessEnv): unknown {
  const plain = withoutComments(text);
  let parsed: unknown;
  try {
    parsed = JSON.parse(plain);
  } catch {
    throw new ConfigError(path, describeSyntaxError(plain));
  }
  const missing: string[] = [];
  const filled = substitute(parsed, '', env, missing);
  if (missing.length > 0) throw new ConfigError(path, missing.join('; '));
  return filled;
}

/** Blanks in place of comments and of commas before a bracket, so that what is left stays where it was. */
function withoutComments(text: string): string {
  const blanks = (piece: string): string => piece.replaceAll(/[^\n]/g, ' ');
  return text
    .replaceAll(COMMENT, (piece, kept?: string) => kept ?? blanks(piece))
    .replaceAll(/("(?:\\.|[^"\\\n])*"?)|,(?=\s*[}\]])/g, (_piece, string?: string) => string ?? ' ');
}

/** A comment; or, in a group, what stays: a string, or a comment that has no end. */
const COMMENT = /\/\/[^\n]*|\/\*[^]*?\*\/|("(?:\\.|[^"\\\n])*"?|\/\*[^]*)/g;

/** The first line that can't stand where it stands, and why; what V8 quotes of a text may be half a secret. */
function describeSyntaxError(text: string): string {
  const lines = text.split('\n');
  for (let n = 1; n <= lines.length; n++) {
    const soFar = lines.slice(0, n).join('\n').trimEnd();
    try {
      JSON.parse(soFar);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const [, position] = /at position (\d+)/.exec(message) ?? [];
      const isCutOnly = message.startsWith('Unexpected end') || Number(position) >= soFar.length;
      if (n < lines.length && isCutOnly) continue;
      return `line ${n}: ${message.replace(/(, (\.\.\.)?"|( in JSON)? at position).*/s, '')}`;
    }
  }
  return 'it is empty';
}

function substitute(value: unknown, option: string, env: NodeJS.ProcessEnv, missing: string[]): unknown {
  if (typeof value === 'string') {
    return value.replaceAll(
      /\$\$\{|\$\{(\w+)(?::-([^}]*))?(\}|$)/g,
      (whole: string, name?: string, fallback?: string, end?: string) => {
        if (name === undefined) return '${';
        if (end === '') return whole;
        const found = env[name] === '' ? undefined : env[name];
        if (found === undefined && fallback === undefined) {
          missing.push(`${option}: ${name} is not set in the environment`);
        }
        return found ?? fallback ?? '';
      },
    );
  }
  if (Array.isArray(value)) return value.map((each, n) => substitute(each, `${option}[${n}]`, env, missing));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      const step = /^[\w$]+$/.test(name) ? (option === '' ? name : `.${name}`) : `[${JSON.stringify(name)}]`;
      return [name, substitute(each, option + step, env, missing)];
    }),
  );
}
