import { unpriced } from '../http/asked-features.ts';
import { InvalidRequestError } from '../errors/request-errors.ts';
import { parseFee } from '../metering/pricing.ts';
import type { AskedFeature, CountedAs, ServerTool, ServerTools } from '../metering/server-tool-fees.ts';
import type { ServerToolOptions } from '../options/model-options.ts';
import { assertObject, positiveInteger, optionError } from '../options/resolve-options.ts';
import type { Model, Target } from './model.ts';
import { PRESET_FEES } from './preset-fees.ts';
import { PRESETS } from './presets.ts';
import type { Provider } from './provider.ts';

/** Highest value of `atMost`. */
const MAX_CALLS = 1000;

const TOOL_OPTIONS: Record<keyof ServerToolOptions, true> = { fee: true, cost: true, atMost: true };

/** Resolves the prices of a model's server tools for one of its targets.
 *
 * @throws {TypeError} naming the invalid option
 */
export function resolveServerTools(
  given: Readonly<Record<string, ServerToolOptions>> | undefined,
  preset: string | undefined,
  option: string,
): ServerTools {
  if (given === undefined) return NONE;
  assertObject(given, option);
  return new Map(
    Object.entries(given).map(([name, tool]): [string, ServerTool] => {
      const path = `${option}[${JSON.stringify(name)}]`;
      if (name === '' || name.includes('*') || name === 'function' || name === 'custom') {
        throw optionError(option, 'named after what providers bill: a type of tool, or a field', name);
      }
      assertObject(tool, path, TOOL_OPTIONS);
      if (tool.fee === undefined) throw new TypeError(`${path}.fee is missing: USD per call, e.g. '0.005'`);
      const atMost = positiveInteger(tool.atMost, `${path}.atMost`);
      if (atMost > MAX_CALLS) throw optionError(`${path}.atMost`, `at most ${MAX_CALLS}`, atMost);
      const fee = parseFee(tool.fee, `${path}.fee`);
      const cost = tool.cost === undefined ? undefined : parseFee(tool.cost, `${path}.cost`);
      return [name, { fee, cost, atMost, countedAs: countedAs(name, preset) }];
    }),
  );
}

/** Checks before the hold that each target has a price for every requested feature.
 *
 * @throws {InvalidRequestError} naming the first feature without a price
 */
export function assertPriced(asked: readonly AskedFeature[], model: Model): void {
  for (const feature of asked) {
    if (model.targets.every((target) => isPriced(feature, target))) continue;
    if (feature.kind !== 'account file') throw unpriced(feature.name, feature.path);
    throw new InvalidRequestError(
      'unpriced_feature',
      "Nothing was sent: this model can't use files that are stored at a provider. Send the file itself.",
      feature.path,
    );
  }
}

function isPriced({ name, kind }: AskedFeature, target: Target): boolean {
  // The provider bills the client directly, and has the client's files.
  if (target.usesByok) return true;
  if (kind === 'account file') return target.accountFiles;
  if (target.serverTools.has(name)) return true;
  const { price, provider } = target;
  switch (kind) {
    case 'part':
      return !billsPart(name, provider);
    default:
      if (name === 'web_search_options') return price.webSearch > 0n || price.request > 0n;
      return price.webSearch > 0n && countedAs(name, provider.preset) === 'searches';
  }
}

/** Without a preset, a provider is recognized by its host. For unknown ones only `document_url` is billed: no server reads it for free. */
function billsPart(name: string, { preset, origin }: Provider): boolean {
  const fees = PRESET_FEES[preset ?? PRESET_OF_HOST.get(origin.hostname) ?? ''];
  return fees ? fees.parts.includes(name) : name === 'document_url';
}

const PRESET_OF_HOST: ReadonlyMap<string, string> = new Map(
  Object.entries(PRESETS)
    .filter(([, { baseURL, keyless }]) => !keyless && URL.canParse(baseURL))
    .map(([name, { baseURL }]) => [new URL(baseURL).hostname, name]),
);

/** How a preset's usage counts the calls of this tool. */
function countedAs(name: string, preset: string | undefined): CountedAs {
  const { tools = {}, fields = {} } = PRESET_FEES[preset ?? ''] ?? {};
  const prefix = Object.keys(tools).find((each) => each.endsWith('*') && name.startsWith(each.slice(0, -1)));
  return tools[name] ?? fields[name] ?? (prefix === undefined ? undefined : tools[prefix]) ?? 'nothing';
}

/** What the target's preset bills, but its model has no price for. */
export function unpricedTools(target: Target): readonly string[] {
  const { preset } = target.provider;
  const fees = preset === undefined ? undefined : PRESET_FEES[preset];
  if (!fees) return [];
  const kinds = [
    ['tool', Object.keys(fees.tools)],
    ['field', Object.keys(fees.fields)],
    ['part', fees.parts],
  ] as const;
  const unpricedNames = kinds.flatMap(([kind, names]) =>
    names.filter((name) => !isPriced({ name, kind, path: '', times: 1 }, target)),
  );
  const prefixes = unpricedNames.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  return unpricedNames.filter(
    (name) => name.endsWith('*') || !prefixes.some((prefix) => name.startsWith(prefix)),
  );
}

const NONE: ServerTools = new Map();
