import { inConfig } from '../config/in-config.ts';
import { loadConfig } from '../config/config-file.ts';
import { PRESETS } from '../models/presets.ts';
import { type Provider, resolveProvider } from '../models/providers.ts';
import type { ApiKeySource, ProviderOptions } from '../options/provider-options.ts';
import type { ServerConfig } from '../options/server-options.ts';
import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../router.ts';
import { resolveSettings } from '../settings.ts';
import { askCompletion, type CompletionAnswer } from './ask-completion.ts';
import { askModels, type ModelsAnswer } from './ask-models.ts';
import { storeProblem } from './ask-store.ts';

export interface CheckOptions {
  readonly path: string;
  /** Whether each target is asked for a token, which costs what it costs. */
  readonly completions: boolean;
  /** Of each question. */
  readonly timeoutMs: number;
  /** Told whenever something was asked. */
  readonly onAsked: (asked: number, all: number) => void;
}

/** What became of a provider, with one of its keys, or of a target. */
export interface CheckRow {
  /** Its name; where it has several keys, with the number of the key: `openai#2`. */
  readonly provider: string;
  /** The model's name there; undefined in the row of the provider itself. */
  readonly model?: string;
  /** Whether the provider's own list has it; undefined where there is no list. */
  readonly listed?: boolean;
  /** How many models the provider's list has. */
  readonly models?: number;
  readonly firstByteMs?: number;
  /** Whether a stream says what it used: where it doesn't, charges are estimates. */
  readonly usage?: 'reported' | 'estimated';
  /** Undefined where nothing was asked, or nothing is to be had. */
  readonly ok?: boolean;
  readonly problem?: string;
}

/** Models of a provider that are asked at a time. */
const AT_A_TIME = 4;

/**
 * Asks all that a config names: its store, each provider for its models, and each target for a token.
 *
 * @throws {ConfigError} when the config itself can't be used
 */
export async function check(options: CheckOptions): Promise<readonly CheckRow[]> {
  const { path, timeoutMs } = options;
  const { server: _, ...config } = await loadConfig(path);
  const settings = inConfig(path, () => {
    const { timeouts } = resolveSettings(config);
    createChatCompletionsRouter({ ...config, store: 'memory:' });
    return timeouts;
  });
  const names = targetsOf(config);
  const keyed = await Promise.all(
    Object.entries(config.providers).flatMap(([name, given]) =>
      withEachKey(name, given).map(async (each) => ({
        ...each,
        targets: names.get(name) ?? [],
        provider: resolveProvider(each.label, each.options, settings),
        key: await readKey(each.options.apiKey),
      })),
    ),
  );
  const all = keyed.reduce((sum, { targets }) => sum + 1 + (options.completions ? targets.length : 0), 0);
  let asked = 0;
  const done = (): void => options.onAsked((asked += 1), all);
  const secrets = keyed
    .map(({ key }) => key.secret)
    .filter((secret) => secret !== undefined && secret.length > 3);
  const rows = await Promise.all([
    storeProblem(config.store, timeoutMs).then((problem) => [storeRow(problem)]),
    ...keyed.map((each) => checkProvider(each, options, done)),
  ]);
  return rows
    .flat()
    .map((row) => (row.problem === undefined ? row : { ...row, problem: masked(row.problem, secrets) }));
}

/** A provider with one of its keys. */
interface Keyed {
  readonly label: string;
  readonly options: ProviderOptions;
  readonly provider: Provider;
  readonly targets: readonly string[];
  readonly key: Key;
}

interface Key {
  readonly secret?: string;
  readonly problem?: string;
}

async function checkProvider(keyed: Keyed, options: CheckOptions, done: () => void): Promise<CheckRow[]> {
  const { label, provider, targets, key } = keyed;
  if (key.problem !== undefined) {
    for (let n = 0; n <= (options.completions ? targets.length : 0); n++) done();
    return [{ provider: label, ok: false, problem: key.problem }];
  }
  const answers = new Map<string, CompletionAnswer & Pick<CheckRow, 'usage'>>();
  const list = askModels(provider, key.secret, options.timeoutMs).finally(done);
  if (options.completions) await askTargets(keyed, options.timeoutMs, answers, done);
  const models = await list;
  const own: CheckRow =
    models.state === 'failed'
      ? { provider: label, ok: false, problem: models.problem }
      : { provider: label, ...(models.state === 'ok' && { models: models.ids.size }), ok: true };
  return [own, ...targets.map((model) => targetRow(label, model, models, answers.get(model)))];
}

/** Through a router of its own, so that what is asked is what a client's request would be. */
async function askTargets(
  { label, options, provider, targets }: Keyed,
  timeoutMs: number,
  answers: Map<string, CompletionAnswer & Pick<CheckRow, 'usage'>>,
  done: () => void,
): Promise<void> {
  const sources = new Map<string, string>();
  const timeouts = { connectMs: timeoutMs, firstByteMs: timeoutMs, idleMs: timeoutMs, totalMs: timeoutMs };
  // What it discovers itself isn't asked here, and would want prices that this router has not.
  const { timeouts: __, models: ___, ...asIs } = options;
  const router: ChatCompletionsRouter = createChatCompletionsRouter({
    store: 'memory:',
    providers: { [label]: asIs },
    models: Object.fromEntries(
      targets.map((model, n) => [`m${n}`, { targets: [{ provider: label, model }], pricing: 'free' }]),
    ),
    authenticate: () => ({ account: 'check' }),
    retries: false,
    health: false,
    timeouts,
    // What they are told stands in the answer as well.
    hooks: { onError: () => {}, onSettled: ({ model, usageSource }) => sources.set(model, usageSource) },
  });
  await router.credits.grant('check', '1.00', { id: 'check' });
  const waiting = targets.entries();
  const askNext = async (): Promise<void> => {
    for (const [n, model] of waiting) {
      const answer = await askCompletion(router, `m${n}`, provider.outputLimitField);
      answers.set(model, answer);
      done();
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, askNext));
  await router.close();
  for (const [n, model] of targets.entries()) {
    const answer = answers.get(model);
    const usage = sources.get(`m${n}`) === 'upstream' ? 'reported' : 'estimated';
    if (answer?.state === 'ok') answers.set(model, { ...answer, usage });
  }
}

function targetRow(
  provider: string,
  model: string,
  models: ModelsAnswer,
  answer: (CompletionAnswer & Pick<CheckRow, 'usage'>) | undefined,
): CheckRow {
  const listed = models.state === 'ok' ? isListed(models.ids, model) : undefined;
  const row = { provider, model, ...(listed !== undefined && { listed }) };
  if (answer?.state === 'failed') return { ...row, ok: false, problem: answer.problem };
  if (answer) {
    const { firstByteMs, usage } = answer;
    return { ...row, firstByteMs, ...(usage && { usage }), ok: true };
  }
  return listed === false
    ? { ...row, ok: false, problem: "the provider's list of models doesn't have it" }
    : row;
}

/** Some say where a model stands before its name: `models/gemini-2.5-flash`. */
function isListed(ids: ReadonlySet<string>, model: string): boolean {
  return ids.has(model) || [...ids].some((id) => id.endsWith(`/${model}`));
}

function storeRow(problem: string | undefined): CheckRow {
  return { provider: '(store)', ok: problem === undefined, ...(problem !== undefined && { problem }) };
}

/** The upstream models of each provider, each once; those of a wildcard can't be told. */
function targetsOf({ models }: ServerConfig): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const { targets } of Object.values(models)) {
    for (const target of targets) {
      const [, provider = '', model = ''] =
        typeof target === 'string'
          ? (/^([^/]*)\/(.*)$/s.exec(target) ?? [])
          : [undefined, target.provider, target.model];
      const ofProvider = found.get(provider) ?? [];
      if (!model.includes('*') && !ofProvider.includes(model)) found.set(provider, [...ofProvider, model]);
    }
  }
  return found;
}

/** Each of several keys can be the one that is dead. */
function withEachKey(
  name: string,
  given: ProviderOptions,
): { readonly label: string; readonly options: ProviderOptions }[] {
  const { apiKeys, ...rest } = given;
  const preset = rest.preset ?? (Object.hasOwn(PRESETS, name) ? name : undefined);
  if (!apiKeys) return [{ label: name, options: rest }];
  return apiKeys.map((apiKey, n) => ({
    label: `${name}#${n + 1}`,
    options: { ...rest, apiKey, ...(preset !== undefined && { preset }) },
  }));
}

async function readKey(source: ApiKeySource | undefined): Promise<Key> {
  if (source === undefined) return {};
  try {
    const secret = typeof source === 'function' ? await source() : source;
    // eslint-disable-next-line no-control-regex -- a header has none of them
    if (secret && /^\s|\s$|[\u0000-\u001f\u007f]/.test(secret)) {
      return {
        secret,
        problem: 'its apiKey has blanks or a line end at its ends, as a file has it: trim it',
      };
    }
    if (secret) return { secret };
    return { problem: 'its apiKey gives no key: is the variable set that it reads?' };
  } catch (error) {
    return { problem: `its apiKey failed: ${error instanceof Error ? error.message : String(error)}` };
  }
}

function masked(text: string, secrets: readonly (string | undefined)[]): string {
  return secrets.reduce<string>((rest, secret) => (secret ? rest.replaceAll(secret, '***') : rest), text);
}
