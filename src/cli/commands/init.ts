import { type PlainCommand, UsageError } from './command.ts';
import { NAME } from './help.ts';

export const initCommand: PlainCommand = {
  name: 'init',
  summary: 'Create a commented config, for a standalone server or an app',
  positionals: '',
  options: {
    app: {
      value: 'APP',
      help: 'standalone, node, express, next, fastify, koa, hono or nest; default: standalone',
    },
    json: { help: 'write JSON instead of TypeScript' },
    providers: {
      value: 'NAMES',
      help: 'such as openai,groq; default: those whose key is in the environment',
    },
    store: { value: 'URL', help: 'store of credits and keys; default: sqlite:./credits.db' },
    force: { help: 'overwrite existing files' },
  },
  async run({ options }) {
    const { APPS, init, KNOWN_PROVIDERS, promptTerminal, suggest } = await import('../init/init.ts');
    const here = { folder: '.', env: process.env };
    const { json, force } = options;
    const { app: appName, providers: list, store } = options;
    const app = APPS.find((each) => each === appName);
    if (appName !== undefined && !app) {
      throw new UsageError(`--app must be one of ${APPS.join(', ')}, got ${JSON.stringify(appName)}`);
    }
    if (json !== undefined && app !== undefined && app !== 'standalone') {
      throw new UsageError('--json is only for a standalone server: an app imports its config');
    }
    const providers = list?.split(',');
    const names = KNOWN_PROVIDERS.map(({ name }) => name);
    const unknown = providers?.find((name) => !names.includes(name));
    if (unknown !== undefined) {
      throw new UsageError(`--providers must be of ${names.join(', ')}, got ${JSON.stringify(unknown)}`);
    }
    const hasNoOptions = [appName, json, list, store].every((given) => given === undefined);
    const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
    const answers =
      hasNoOptions && isTerminal ? await promptTerminal(process.stdin, process.stdout, suggest(here)) : {};
    const written = init({
      ...here,
      isJson: json !== undefined,
      force: force !== undefined,
      ...(app && { app }),
      ...(providers && { providers }),
      ...(store !== undefined && { store }),
      ...answers,
    });
    for (const file of written.files) console.log(`Wrote ${file}`);
    for (const { name, variable } of written.providers) {
      console.log(`  ${name}: ${variable} is ${written.missing.includes(variable) ? 'NOT set yet' : 'set'}`);
    }
    if (written.lines !== undefined) console.log(`\nAdd to your app:\n\n${indented(written.lines)}`);
    const isServer = written.app === 'standalone';
    const next = isServer ? [...CUSTOMER, `npx ${NAME} serve`] : [`npm install ${NAME}`, ...CUSTOMER];
    console.log(`\nThen:\n\n${indented(next.join('\n'))}`);
    return true;
  },
};

const CUSTOMER = [
  `npx ${NAME} keys create acme   # an API key for a customer, shown once`,
  `npx ${NAME} credits grant acme 5.00 --id welcome`,
];

function indented(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '  ');
}
