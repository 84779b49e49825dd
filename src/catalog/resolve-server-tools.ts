import { unpriced } from '../http/asked-features.ts';
import { InvalidRequestError } from '../errors/request-errors.ts';
import { parseFee } from '../metering/pricing.ts';
import type { AskedFeature, ServerTool, ServerTools } from '../metering/server-tool-fees.ts';
import type { ServerToolOptions } from '../options/model-options.ts';
import { assertObject, positiveInteger, optionError } from '../options/resolve-options.ts';
import type { Model, Target } from './model.ts';
import { PRESET_FEES } from './preset-fees.ts';
import { PRESETS } from './presets.ts';
import type { Provider } from './provider.ts';

/** More calls of one tool are no bound. */
const MAX_CALLS = 1000;

const TOOL_OPTIONS: Record<keyof ServerToolOptions, true> = { fee: true, cost: true, atMost: true };

/**
 * The prices of a model's tools, as they are counted at one of its targets.
 *
 * @throws {TypeError} naming the option that can't be right
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
      const place = `${option}[${JSON.stringify(name)}]`;
      if (name === '' || name.includes('*') || name === 'function' || name === 'custom') {
        throw optionError(option, 'named by what providers bill: a type of tool, a field', name);
      }
      assertObject(tool, place, TOOL_OPTIONS);
      if (tool.fee === undefined) throw new TypeError(`${place}.fee is missing: USD a call, as '0.005'`);
      const atMost = positiveInteger(tool.atMost, `${place}.atMost`);
      if (atMost > MAX_CALLS) throw optionError(`${place}.atMost`, `at most ${MAX_CALLS}`, atMost);
      const fee = parseFee(tool.fee, `${place}.fee`);
      const cost = tool.cost === undefined ? undefined : parseFee(tool.cost, `${place}.cost`);
      return [name, { fee, cost, atMost, isCounted: isCounted(name, preset) }];
    }),
  );
}

/**
 * Before anything is held: each target that may answer has a price for all that the request asks for.
 *
 * @throws {InvalidRequestError} naming the first thing that one of them has no price for
 */
export function assertPriced(asked: readonly AskedFeature[], model: Model): void {
  for (const feature of asked) {
    if (model.targets.every((target) => isPriced(feature, target))) continue;
    if (feature.kind !== 'account file') throw unpriced(feature.name, feature.path);
    throw new InvalidRequestError(
      'unpriced_feature',
      "Nothing was sent: files that are stored at a provider can't be used with this model. Send the file itself.",
      feature.path,
    );
  }
}

function isPriced({ name, kind }: AskedFeature, target: Target): boolean {
  // Its provider bills the client itself, and has that client's files.
  if (target.usesByok) return true;
  if (kind === 'account file') return target.accountFiles;
  if (target.serverTools.has(name)) return true;
  const { price, provider } = target;
  switch (kind) {
    case 'part':
      return !billsPart(name, provider);
    default:
      if (name === 'web_search_options') return price.webSearch > 0n || price.request > 0n;
      return price.webSearch > 0n && isCounted(name, provider.preset);
  }
}

/** A provider without a preset is known by its host; of others it isn't known, and `document_url` is read by none that gives it away. */
function billsPart(name: string, { preset, origin }: Provider): boolean {
  const fees = PRESET_FEES[preset ?? PRESET_OF_HOST.get(origin.hostname) ?? ''];
  return fees ? fees.parts.includes(name) : name === 'document_url';
}

const PRESET_OF_HOST: ReadonlyMap<string, string> = new Map(
  Object.entries(PRESETS)
    .filter(([, { baseURL, keyless }]) => !keyless && URL.canParse(baseURL))
    .map(([name, { baseURL }]) => [new URL(baseURL).hostname, name]),
);

/** Whether a preset's usage tells how often it was called. */
function isCounted(name: string, preset: string | undefined): boolean {
  const fees = preset === undefined ? undefined : PRESET_FEES[preset];
  return fees?.tools[name] === 'searches' || fees?.fields[name] === 'searches';
}

/** What a target's preset is known to bill, and its model has no price for. */
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
  const stars = unpricedNames.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  return unpricedNames.filter((name) => name.endsWith('*') || !stars.some((star) => name.startsWith(star)));
}

const NONE: ServerTools = new Map();
