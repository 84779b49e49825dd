import { isDeepStrictEqual } from 'node:util';

import { InvalidRequestError, UpstreamError } from '../errors/errors.ts';
import { asError } from '../platform/as-error.ts';
import type { BodyCaller, MakeBodyValue } from '../options/body-rules.ts';
import type { OutputLimitField } from '../options/provider-options.ts';
import type { BodyMembers } from './body-members.ts';
import type { ChatRequest } from './chat-request.ts';
import type { MemberEdits, Span, Splice } from './splice-request.ts';

/** What becomes of one top-level field. */
export type BodyRule =
  | { readonly action: 'drop'; readonly name: string }
  | { readonly action: 'rename'; readonly name: string; readonly to: string }
  | {
      readonly action: 'set' | 'default';
      readonly name: string;
      /** Where it stands in the options, for messages. */
      readonly option: string;
      /** As JSON, or how it is made. */
      readonly value: string | MakeBodyValue;
    };

/** The most bytes, as JSON, that a function may make: so much is held for it before it is called. */
export const MAX_MADE_LENGTH = 512;

/** Names that a rule looks for in a request. */
export function namesOf(rule: BodyRule): readonly string[] {
  return rule.action === 'rename' ? [rule.name, rule.to] : [rule.name];
}

/** @throws {InvalidRequestError} where a provider could read a field that has a rule otherwise than the rule does */
export function assertUnambiguous(rules: readonly BodyRule[], { found, faults }: BodyMembers): void {
  for (const rule of rules) {
    for (const name of namesOf(rule)) {
      const fault = faults.get(name);
      if (fault) throw fault;
    }
    if (rule.action !== 'rename' || !found.has(rule.name) || !found.has(rule.to)) continue;
    throw new InvalidRequestError(
      'ambiguous_parameter',
      `The fields "${rule.name}" and "${rule.to}" say the same; send one of them.`,
      rule.name,
    );
  }
}

/**
 * What the rules do to a body.
 *
 * @param removed - members that are taken out of it whatever the rules say: they count as not there
 * @param onError - told why a function has no value
 * @throws {UpstreamError} where one has none
 */
export function memberEdits(
  rules: readonly BodyRule[],
  { found }: BodyMembers,
  removed: readonly Span[],
  caller: BodyCaller,
  onError: (error: Error) => void,
): MemberEdits {
  const replaced: Splice[] = [];
  const dropped: Span[] = [];
  let added = '';
  for (const rule of rules) {
    const there = found.get(rule.name);
    const member = there && removed.some(({ end }) => end === there.end) ? undefined : there;
    if (rule.action === 'rename') {
      if (member) replaced.push({ ...member.key, text: JSON.stringify(rule.to) });
      continue;
    }
    if (rule.action === 'default' && member) continue;
    const text = rule.action === 'drop' ? undefined : valueOf(rule, caller, onError);
    if (text === undefined) {
      if (member) dropped.push({ start: member.key.start, end: member.end });
    } else if (member) {
      replaced.push({ start: member.start, end: member.end, text });
    } else {
      added += `,${JSON.stringify(rule.name)}:${text}`;
    }
  }
  return { replaced, dropped, added };
}

/** As JSON; undefined where the field is to be left out. */
function valueOf(
  { value, option }: Extract<BodyRule, { readonly option: string }>,
  caller: BodyCaller,
  onError: (error: Error) => void,
): string | undefined {
  if (typeof value === 'string') return value;
  try {
    return madeBy(value, option, caller);
  } catch (error) {
    onError(asError(error));
    throw new UpstreamError(
      'upstream_misconfigured',
      "The model's provider is not set up here: a field of its requests can not be made.",
    );
  }
}

function madeBy(make: MakeBodyValue, option: string, caller: BodyCaller): string | undefined {
  let made: unknown;
  try {
    made = make(caller);
  } catch (cause) {
    throw new Error(`${option} threw`, { cause });
  }
  if (made === undefined) return undefined;
  // It isn't waited for; what it may reject with is no news beside what is said here.
  if (made instanceof Promise) made.catch(() => {});
  const text = jsonOf(made);
  if (text === undefined) throw new TypeError(`${option} returned what is no JSON value`);
  if (Buffer.byteLength(text) <= MAX_MADE_LENGTH) return text;
  throw new TypeError(`${option} returned a value of more than ${MAX_MADE_LENGTH} bytes`);
}

/** Undefined for what JSON can't say as it is: functions, dates, NaN, members that are undefined. */
export function jsonOf(value: unknown): string | undefined {
  try {
    const text = JSON.stringify(value);
    return isDeepStrictEqual(JSON.parse(text), value) ? text : undefined;
  } catch {
    return undefined;
  }
}

/** A request as it is once its output limit has the other name: what is done to limits is done to that one. */
export function withMovedLimit(request: ChatRequest, to: OutputLimitField): ChatRequest {
  const { maxTokens, maxCompletionTokens, edits } = request;
  const limit = maxTokens ?? maxCompletionTokens;
  const member = edits.max_tokens ?? edits.max_completion_tokens;
  const isLonger = to === 'max_completion_tokens';
  return {
    ...request,
    maxTokens: isLonger ? undefined : limit,
    maxCompletionTokens: isLonger ? limit : undefined,
    edits: {
      ...edits,
      max_tokens: isLonger ? undefined : member,
      max_completion_tokens: isLonger ? member : undefined,
    },
  };
}
