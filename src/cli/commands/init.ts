import { type Invocation, type PlainCommand, UsageError } from './command.ts';
import { notOneOf } from '../../platform/did-you-mean.ts';
import { NAME } from './help.ts';

const APP_KINDS = ['standalone', 'node', 'express', 'next', 'fastify', 'koa', 'hono', 'nest'];

export const initCommand: PlainCommand = {
  name: 'init',
  summary: 'Create a commented config, for a standalone server or an app, or from a config of LiteLLM',
  positionals: '[FILE]',
  options: {
    app: { value: 'APP', choices: APP_KINDS, help: `one of ${APP_KINDS.join(', ')}; default: standalone` },
    json: { help: 'write JSON instead of TypeScript' },
    providers: {
      value: 'NAMES',
      help: 'such as openai,groq; default: those whose key is in the environment',
    },
    variables: { value: 'PAIRS', help: 'parts of base URLs, e.g. azure.resource=contoso' },
    store: { value: 'URL', help: 'store of credits and keys; default: sqlite:./credits.db' },
    from: {
      value: 'FORMAT',
      choices: ['litellm'],
      help: 'convert FILE: the config.yaml of a LiteLLM proxy',
    },
    keys: { value: 'FILE', help: 'with --from: virtual keys, as GET /key/list?return_full_object=true' },
    force: { help: 'overwrite existing files' },
  },
  examples: ['init --providers openai,groq', 'init --app express', 'init --from litellm config.yaml'],
  async run(invocation) {
    const { options, positionals } = invocation;
    const [file] = positionals;
    if (options['from'] !== undefined) {
      if (file === undefined) throw new UsageError('FILE is missing: init --from litellm config.yaml');
      return convert(invocation, file);
    }
    if (file !== undefined) throw new UsageError('FILE requires --from: init --from litellm config.yaml');
    if (options['keys'] !== undefined) throw new UsageError('--keys requires --from');
    return writeConfig(invocation);
  },
};

async function writeConfig({ options }: Invocation): Promise<boolean> {
  const {
    APP_KINDS: apps,
    init,
    KNOWN_PROVIDERS,
    promptTerminal,
    providerVariables,
    storeMistake,
    suggest,
  } = await import('../init/init.ts');
  const here = { folder: '.', env: process.env };
  const { app: appName, providers: list, store, json, force, variables } = options;
  const app = apps.find((each) => each === appName);
  if (json !== undefined && app !== undefined && app !== 'standalone') {
    throw new UsageError('--json is only for a standalone server: an app imports its config');
  }
  const providers = list?.split(',');
  const names = KNOWN_PROVIDERS.map(({ name }) => name);
  const unknown = providers?.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new UsageError(notOneOf('--providers', names, unknown));
  const mistake = store === undefined ? undefined : await storeMistake(store, here.folder);
  if (mistake !== undefined) throw new UsageError(`--store: ${mistake}`);
  const hasNoOptions = [appName, json, list, store, variables].every((given) => given === undefined);
  const { stdin: input, stdout: output } = process;
  const answers =
    hasNoOptions && input.isTTY && output.isTTY
      ? await promptTerminal({ input, output, folder: here.folder, suggested: suggest(here), notOneOf })
      : { variables: providerVariables(variables, providers ?? []) };
  const written = init({
    ...here,
    isJson: json !== undefined,
    force: force !== undefined,
    ...(app && { app }),
    ...(providers && { providers }),
    ...(store !== undefined && { store }),
    ...answers,
  });
  for (const each of written.files) console.log(`Wrote ${each}`);
  for (const { name, variable } of written.providers) {
    if (variable === undefined) console.log(`  ${name}: needs no key`);
    else
      console.log(`  ${name}: ${variable} is ${written.missing.includes(variable) ? 'NOT set yet' : 'set'}`);
  }
  if (written.lines !== undefined) console.log(`\nAdd to your app:\n\n${indented(written.lines)}`);
  const isServer = written.app === 'standalone';
  console.log(
    nextSteps(
      written.missing,
      isServer || written.isInstalled ? [] : [`npm install ${NAME}`],
      startOf(written.app, written.missing),
    ),
  );
  return true;
}

/** Converts a config of LiteLLM, and lists what has no equivalent. */
async function convert({ options }: Invocation, file: string): Promise<boolean> {
  const { app, providers, store, json, keys, force } = options;
  if (app !== undefined || providers !== undefined) {
    throw new UsageError('--from converts the models of a config: --app and --providers are not for it');
  }
  const { convertLiteLLM, storeMistake } = await import('../init/litellm/litellm.ts');
  const mistake = store === undefined ? undefined : await storeMistake(store, '.');
  if (mistake !== undefined) throw new UsageError(`--store: ${mistake}`);
  const converted = await convertLiteLLM({
    folder: '.',
    env: process.env,
    file,
    isJson: json !== undefined,
    force: force !== undefined,
    ...(store !== undefined && { store }),
    ...(keys !== undefined && { keysFile: keys }),
  });
  for (const each of converted.files) console.log(`Wrote ${each}`);
  console.log(`  ${converted.summary}`);
  if (converted.notes.length > 0) {
    console.log('\nWhat differs, or has no equivalent:\n');
    for (const { setting, why } of converted.notes) console.log(`  ${setting}: ${why}`);
  }
  console.log(
    nextSteps(
      converted.missing,
      [`npx ${NAME} check`],
      startOf('standalone', converted.missing),
      converted.keysScript,
    ),
  );
  return true;
}

/** What starts the server or the app; undefined where nothing is to be said of it: Next.js reads `.env` by itself. */
function startOf(app: string, missing: readonly string[]): string | undefined {
  if (app === 'standalone') return `npx ${NAME} serve${envFileOf(missing)}`;
  return missing.length === 0 || app === 'next'
    ? undefined
    : 'node --env-file=.env APP   # your app, with these variables';
}

function envFileOf(missing: readonly string[]): string {
  return missing.length > 0 ? ' --env-file .env' : '';
}

/** @param start - what starts the server or the app */
function nextSteps(
  missing: readonly string[],
  first: readonly string[],
  start: string | undefined,
  keysScript?: string,
): string {
  const env = envFileOf(missing);
  const customer =
    keysScript === undefined
      ? [
          `npx ${NAME} keys create acme${env}   # an API key for a customer, shown once`,
          `npx ${NAME} credits grant acme 5.00 --id welcome${env}`,
        ]
      : [`sh ${keysScript}   # creates the API keys, and prints each new secret once`];
  const steps = [
    ...first.map((step) => (step.endsWith(' check') ? step + env : step)),
    ...customer,
    ...(start === undefined ? [] : [start]),
  ];
  const put =
    missing.length === 0
      ? ''
      : `\nPut into .env, and .env into .gitignore:\n\n${indented(missing.map((name) => `${name}=`).join('\n'))}\n`;
  return `${put}\nThen:\n\n${indented(steps.join('\n'))}`;
}

function indented(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '  ');
}
