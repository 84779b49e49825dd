import type { ModelInfo, ReasoningInfo } from '../options/model-info.ts';
import type { ModelCatalogEntry } from '../options/model-options.ts';
import { assertObject, optionError } from '../options/resolve-options.ts';
import { defined } from './defined.ts';
import type { RecordInfo } from './model.ts';

/** A check of each member. */
export const MODEL_INFO: Readonly<Record<keyof ModelInfo, (given: unknown, option: string) => void>> = {
  name: checkText,
  description: checkText,
  created: checkSeconds,
  ownedBy: checkText,
  inputModalities: checkNames,
  outputModalities: checkNames,
  supportedParameters: checkNames,
  tags: checkNames,
  knowledgeCutoff: checkDay,
  reasoning: checkReasoning,
  tokenizer: checkText,
  instructType: checkText,
  huggingFaceId: checkText,
  defaultParameters: checkParameters,
};

/** What a model's record says: its options, and then a model catalog's entry for it.
 *
 * @throws {TypeError} naming the invalid option
 */
export function resolveModelInfo(
  id: string,
  given: ModelInfo,
  option: string,
  known: ModelCatalogEntry | undefined,
): RecordInfo {
  const own: Record<string, unknown> = {};
  for (const [name, check] of CHECKS) {
    const value: unknown = Reflect.get(given, name);
    if (value === undefined) continue;
    check(value, `${option}.${name}`);
    own[name] = copyOf(value);
  }
  return {
    contextWindow: undefined,
    maxOutputTokens: undefined,
    name: id,
    created: 0,
    ownedBy: id.includes('/') ? id.slice(0, id.indexOf('/')) : 'system',
    ...(known && defined(known)),
    ...own,
  };
}

const CHECKS = Object.entries(MODEL_INFO);

/** A copy that later changes to the options don't reach. */
function copyOf(given: unknown): unknown {
  if (typeof given !== 'object') return given;
  return Array.isArray(given) ? [...given] : structuredClone(given);
}

function checkText(given: unknown, option: string): void {
  if (typeof given !== 'string') throw optionError(option, 'a string', given);
}

function checkNames(given: unknown, option: string): void {
  if (Array.isArray(given) && given.every((name) => typeof name === 'string')) return;
  throw optionError(option, 'a list of names', given);
}

function checkSeconds(given: unknown, option: string): void {
  if (typeof given === 'number' && Number.isSafeInteger(given) && given >= 0) return;
  throw optionError(option, 'Unix seconds', given);
}

/** A day, month or year: the form of OpenRouter's and models.dev's dates. */
export const CALENDAR_DATE: RegExp = /^\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$/;

function checkDay(given: unknown, option: string): void {
  if (typeof given === 'string' && CALENDAR_DATE.test(given)) return;
  throw optionError(option, "a date as '2024-10-01', '2024-10' or '2024'", given);
}

const REASONING: Record<keyof ReasoningInfo, true> = {
  mandatory: true,
  supportedEfforts: true,
  defaultEffort: true,
};

function checkReasoning(given: unknown, option: string): void {
  assertObject(given, option, REASONING);
  for (const [name, value] of membersOf(given)) {
    if (name === 'supportedEfforts') checkNames(value, `${option}.${name}`);
    if (name === 'defaultEffort') checkText(value, `${option}.${name}`);
  }
  const mandatory = new Map(membersOf(given)).get('mandatory');
  if (typeof mandatory !== 'boolean') throw optionError(`${option}.mandatory`, 'a boolean', mandatory);
}

function checkParameters(given: unknown, option: string): void {
  assertObject(given, option);
  for (const [name, value] of membersOf(given)) {
    if (value !== null && !Number.isFinite(value)) throw optionError(`${option}.${name}`, 'a number', value);
  }
}

/** Those that are set. */
function membersOf(given: unknown): readonly (readonly [name: string, value: unknown])[] {
  const members: readonly [string, unknown][] = Object.entries(given ?? {});
  return members.filter(([, value]) => value !== undefined);
}
