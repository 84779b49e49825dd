import { KNOWN_PROVIDERS, type KnownProvider } from './known-providers.ts';
import { importLine, quoted } from './source-text.ts';

/** Input for the text of a config. */
export interface ConfigPlan {
  /** At least one. */
  readonly providers: readonly KnownProvider[];
  readonly store: string;
  /** Provider → values of the variables of its base URL. */
  readonly variables: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Decides which optional variables the config reads. */
  readonly env: NodeJS.ProcessEnv;
  /** For a standalone server, not for an app. */
  readonly isStandalone: boolean;
}

/** Syntax of a config language. */
interface Language {
  readonly name: (name: string) => string;
  readonly string: (text: string) => string;
  readonly number: (value: number) => string;
  /** An environment variable that is read for each request. */
  readonly secret: (variable: string) => string;
  /** An environment variable with a default. */
  readonly variable: (variable: string, usual: string) => string;
}

const SCRIPT: Language = {
  name: (name) => (/^[a-z]\w*$/i.test(name) ? name : quoted(name)),
  string: quoted,
  number: (value) => value.toLocaleString('en-US').replaceAll(',', '_'),
  secret: (variable) => `() => process.env.${variable}`,
  variable: (variable, usual) => `process.env.${variable} ?? ${quoted(usual)}`,
};

const JSON_TEXT: Language = {
  name: (name) => JSON.stringify(name),
  string: (text) => JSON.stringify(text),
  number: String,
  secret: (variable) => JSON.stringify(`\${${variable}}`),
  variable: (variable, usual) => JSON.stringify(`\${${variable}:-${usual}}`),
};

/** A config in TypeScript, or without types in JavaScript. */
export function scriptConfig(plan: ConfigPlan, hasTypes: boolean): string {
  const type = plan.isStandalone ? 'ServerConfig' : 'ChatCompletionsRouterOptions';
  const head = hasTypes ? `${importLine(`type { ${type} }`, 'chat-completions-router')}\n\n` : '';
  return `${head}export default ${body(plan, SCRIPT)}${hasTypes ? ` satisfies ${type}` : ''};\n`;
}

/** A config in JSON, with comments. */
export function jsonConfig(plan: ConfigPlan): string {
  return `${body(plan, JSON_TEXT)}\n`;
}

function body({ providers, store, variables, env, isStandalone }: ConfigPlan, language: Language): string {
  const { name, variable } = language;
  const others = KNOWN_PROVIDERS.filter((each) => !providers.includes(each)).slice(0, 3);
  const server = `${name('server')}: { ${name('port')}: 8787, ${name('host')}: ${language.string('127.0.0.1')} },`;
  const lines = [
    '// Store of credits and API keys: a file on this machine, or redis://HOST for several machines.',
    `${name('store')}: ${variable('CREDITS_STORE', store)},`,
    '',
    '// OpenAI-compatible APIs: a preset by its name, or any other by its baseURL.',
    `${name('providers')}: {`,
    ...providers.map((each) => `  ${providerLine(each, variables[each.name], env, language)}`),
    ...others.map((each) => `  // ${providerLine(each, undefined, {}, language)}`),
    `  // ${name('local')}: { ${name('baseURL')}: ${language.string('http://127.0.0.1:11434/v1')} },`,
    '},',
    '',
    '// The models of your customers, by model ID. They pay `pricing`, in USD per million tokens.',
    '// These are list prices from when this version was released: check them, and add your margin.',
    `${name('models')}: {`,
    ...providers.flatMap((each) => modelLines(each, language)).map((line) => `  ${line}`),
    '},',
    ...(isStandalone ? ['', '// Use 0.0.0.0 (all addresses) in a container.', server] : []),
  ];
  return `{\n${lines.map((line) => (line === '' ? '' : `  ${line}`)).join('\n')}\n}`;
}

function providerLine(
  provider: KnownProvider,
  variables: Readonly<Record<string, string>> | undefined,
  env: NodeJS.ProcessEnv,
  language: Language,
): string {
  const { name, string, secret, variable } = language;
  const { baseURL } = provider;
  const address = baseURL && env[baseURL.variable];
  const parts = Object.entries(variables ?? {}).map(([part, value]) => `${name(part)}: ${string(value)}`);
  const fields = [
    ...(address ? [`${name('baseURL')}: ${variable(baseURL.variable, baseURL.usual)}`] : []),
    ...(parts.length > 0 ? [`${name('variables')}: { ${parts.join(', ')} }`] : []),
    ...(provider.variable === undefined ? [] : [`${name('apiKey')}: ${secret(provider.variable)}`]),
  ];
  return `${name(provider.name)}: {${fields.length > 0 ? ` ${fields.join(', ')} ` : ''}},`;
}

function modelLines({ name: provider, models }: KnownProvider, language: Language): string[] {
  const { name, string, number } = language;
  if (models.length === 0) {
    const all = `${provider}/*`;
    return [
      `// All models that the server at its usual port has.`,
      `${name(all)}: { ${name('targets')}: [${string(all)}], ${name('pricing')}: ${string('free')} },`,
    ];
  }
  return models.flatMap(({ model, pricing, contextWindow, maxOutputTokens, comment }, n) => {
    const prices = Object.entries(pricing).map(([what, price]) => `${name(what)}: ${string(price)}`);
    const fallbacks = n === 0 ? ' // add more targets for failover, in order' : '';
    return [
      ...(comment === undefined ? [] : [`// ${comment}`]),
      `${name(`${provider}/${model}`)}: {`,
      `  ${name('targets')}: [${string(`${provider}/${model}`)}],${fallbacks}`,
      `  ${name('pricing')}: { ${prices.join(', ')} },`,
      `  ${name('contextWindow')}: ${number(contextWindow)},`,
      `  ${name('maxOutputTokens')}: ${number(maxOutputTokens)},`,
      '},',
    ];
  });
}
