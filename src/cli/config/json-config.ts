import { repeatedMember } from '../../json/repeated-member.ts';
import { ConfigError } from './config-error.ts';

/** Some editors write a byte order mark, which `JSON.parse` refuses. */
const BOM = '\uFEFF';

/**
 * Parses a JSON config with comments, and substitutes environment variables in its strings: `${NAME}`, or with a
 * default `${NAME:-default}`; `$${` is a literal `${`.
 *
 * @throws {ConfigError} naming the line of a syntax error or of a repeated name, or each option whose variable isn't set or
 * can't be one
 */
export function parseJsonConfig(text: string, path: string, env: NodeJS.ProcessEnv): unknown {
  const plain = withoutComments(text.startsWith(BOM) ? text.slice(BOM.length) : text);
  let parsed: unknown;
  try {
    parsed = JSON.parse(plain);
  } catch {
    throw new ConfigError(path, describeSyntaxError(plain));
  }
  const bytes = Buffer.from(plain);
  const repeated = repeatedMember(bytes);
  if (typeof repeated === 'object') {
    const line = bytes.toString('utf8', 0, repeated.at).split('\n').length;
    throw new ConfigError(path, `line ${line}: ${JSON.stringify(repeated.name)} is given twice`);
  }
  const problems: string[] = [];
  const filled = substitute(parsed, '', env, problems);
  if (problems.length > 0) throw new ConfigError(path, problems.join('; '));
  return filled;
}

/** Replaces comments and trailing commas with blanks, so that line numbers stay the same. */
function withoutComments(text: string): string {
  const blanks = (match: string): string => match.replaceAll(/[^\n]/g, ' ');
  return text
    .replaceAll(COMMENT, (match, kept?: string) => kept ?? blanks(match))
    .replaceAll(/("(?:\\.|[^"\\\n])*"?)|,(?=\s*[}\]])/g, (_match, string?: string) => string ?? ' ');
}

/** Matches a comment; or, as a group, text to keep: a string, or an unterminated comment. */
const COMMENT = /\/\/[^\n]*|\/\*[^]*?\*\/|("(?:\\.|[^"\\\n])*"?|\/\*[^]*)/g;

/** The first line with a syntax error, and the error, without the source text that V8 quotes: it may contain a secret. */
function describeSyntaxError(text: string): string {
  const lines = text.split('\n');
  for (let n = 1; n <= lines.length; n++) {
    const soFar = lines.slice(0, n).join('\n').trimEnd();
    try {
      JSON.parse(soFar);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const [, position] = /at position (\d+)/.exec(message) ?? [];
      const isIncomplete = message.startsWith('Unexpected end') || Number(position) >= soFar.length;
      if (n < lines.length && isIncomplete) continue;
      return `line ${n}: ${message.replace(/(, (\.\.\.)?"|( in JSON)? at position).*/s, '')}`;
    }
  }
  return 'is empty';
}

function substitute(value: unknown, option: string, env: NodeJS.ProcessEnv, problems: string[]): unknown {
  if (typeof value === 'string') {
    return value.replaceAll(
      /\$\$\{|\$\{(?:(\w+)(?::-([^}]*))?(\}|$))?/g,
      (start: string, name?: string, fallback?: string, end?: string) => {
        if (start === '$${') return '${';
        if (name === undefined || end === '') {
          // Without the text: it may be a part of a key.
          problems.push(
            `${option}: \${ needs the name of a variable (letters, digits, _), as \${NAME} or \${NAME:-text}; $\${ is a literal \${`,
          );
          return '';
        }
        const found = env[name] === '' ? undefined : env[name];
        if (found === undefined && fallback === undefined) {
          problems.push(`${option}: ${name} is not set: put it into .env and use --env-file .env`);
        }
        return found ?? fallback ?? '';
      },
    );
  }
  if (Array.isArray(value)) return value.map((each, n) => substitute(each, `${option}[${n}]`, env, problems));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      const step = /^[\w$]+$/.test(name) ? (option === '' ? name : `.${name}`) : `[${JSON.stringify(name)}]`;
      return [name, substitute(each, option + step, env, problems)];
    }),
  );
}
