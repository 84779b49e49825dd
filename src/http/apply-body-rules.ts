import { isDeepStrictEqual } from 'node:util';

import { UpstreamError } from '../errors/upstream-errors.ts';
import { asError } from '../platform/as-error.ts';
import type { BodyCaller, MakeBodyValue } from '../options/body-rules.ts';
import type { OutputLimitField } from '../options/provider-options.ts';
import type { BodyMembers } from './body-members.ts';
import type { ChatRequest } from './chat-request.ts';
import { conflictingFields } from './field-errors.ts';
import type { MemberEdits, Span, Splice } from './splice-request.ts';

/** An edit of one top-level field. */
export type BodyRule =
  | { readonly action: 'drop'; readonly name: string }
  | { readonly action: 'rename'; readonly name: string; readonly to: string }
  | {
      readonly action: 'set' | 'default';
      readonly name: string;
      /** Path of the rule in the options, for messages. */
      readonly option: string;
      /** JSON text, or a function that makes the value. */
      readonly value: string | MakeBodyValue;
    };

/** Size limit of a function's value, as JSON: the hold includes this many bytes before the function is called. */
export const MAX_MADE_BYTES = 512;

/** Field names that a rule looks for in a request. */
export function namesOf(rule: BodyRule): readonly string[] {
  return rule.action === 'rename' ? [rule.name, rule.to] : [rule.name];
}

/** @throws {InvalidRequestError} if a provider could read a field with a rule differently than the rule does */
export function assertUnambiguous(rules: readonly BodyRule[], { found, faults }: BodyMembers): void {
  for (const rule of rules) {
    for (const name of namesOf(rule)) {
      const fault = faults.get(name);
      if (fault) throw fault;
    }
    if (rule.action !== 'rename' || !found.has(rule.name) || !found.has(rule.to)) continue;
    throw conflictingFields(rule.name, rule.to);
  }
}

/**
 * The edits that the rules make to a body.
 *
 * @param removed - members that are removed in any case: the rules treat them as absent
 * @param onError - receives the failure of a function
 * @throws {UpstreamError} if a function fails
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

/** As JSON; undefined if the field is to be left out. */
function valueOf(
  { value, option }: Extract<BodyRule, { readonly option: string }>,
  caller: BodyCaller,
  onError: (error: Error) => void,
): string | undefined {
  if (typeof value === 'string') return value;
  try {
    return callMakeValue(value, option, caller);
  } catch (error) {
    onError(asError(error));
    throw new UpstreamError(
      'upstream_misconfigured',
      "The model's provider is not set up here: a field of its requests can not be made.",
    );
  }
}

function callMakeValue(make: MakeBodyValue, option: string, caller: BodyCaller): string | undefined {
  let made: unknown;
  try {
    made = make(caller);
  } catch (cause) {
    throw new Error(`${option} threw`, { cause });
  }
  if (made === undefined) return undefined;
  // A promise isn't awaited; the TypeError below reports it, so its rejection is ignored.
  if (made instanceof Promise) made.catch(() => {});
  const text = jsonOf(made);
  if (text === undefined) throw new TypeError(`${option} returned a value that isn't JSON`);
  if (Buffer.byteLength(text) <= MAX_MADE_BYTES) return text;
  throw new TypeError(`${option} returned a value of more than ${MAX_MADE_BYTES} bytes`);
}

/** Undefined for what JSON can't represent exactly: functions, dates, NaN, undefined members. */
export function jsonOf(value: unknown): string | undefined {
  try {
    const text = JSON.stringify(value);
    return isDeepStrictEqual(JSON.parse(text), value) ? text : undefined;
  } catch {
    return undefined;
  }
}

/** The request with its output limit under the other name, so that edits of the limit apply to that field. */
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
