import { isRecord, type Json, parseJson } from '../catalog/json-value.ts';

/** What the bodies of providers' errors say, as each provider words it: nothing else reads them for their meaning. */

/** OpenRouter, its guardrails, and xAI. */
const CONTENT_REFUSED =
  /content[ _]policy|content[ _]filter|flagged_input|input was flagged|requires moderation|violates usage guidelines|prompt injection/i;

/** Whether a 403 is about what the request says, which is its client's matter, and not about the account that asked. */
export function saysContentRefused(body: string): boolean {
  return CONTENT_REFUSED.test(body);
}

/** OpenAI, Azure, vLLM, Groq and OpenRouter; Anthropic; Gemini; llama.cpp and others. */
const TOO_LONG =
  /context_length_exceeded|(maximum|available) context (length|size|window)|prompt is too long|input token count[^"]{0,40}exceeds|exceed_context_size/i;

/** Statuses with which it is said. */
export function mayBeTooLong(status: number): boolean {
  return status === 400 || status === 413 || status === 422;
}

/** Whether an error's body says that the prompt is longer than this target reads: another may read more. */
export function saysTooLong(body: string): boolean {
  return TOO_LONG.test(body);
}

/** Of a 429: OpenAI, Gemini, Moonshot, Zhipu, MiniMax. */
const QUOTA_SPENT =
  /insufficient_?\s?(quota|balance|funds)|exceeded_?\s?(your_?\s?)?current_?\s?quota|billing|余额/i;

/** Whether a 429 is about an account's money, not about haste. */
export function saysQuotaSpent(body: string): boolean {
  return QUOTA_SPENT.test(body);
}

/**
 * Whether a 400 is about the key that the request was sent with, as the 401 of other providers is: LiteLLM without a
 * database, Gemini, xAI.
 *
 * Only the error's own members are read: a provider may repeat what the client has sent beside them.
 */
export function saysKeyRefused(body: string): boolean {
  const error = errorDocument(body)?.['error'];
  if (!isRecord(error)) return saysIncorrectKey(error);
  const { type, message, details } = error;
  if (type === 'no_db_connection' || saysIncorrectKey(message)) return true;
  return (
    Array.isArray(details) &&
    details.some((each: Json) => isRecord(each) && each['reason'] === 'API_KEY_INVALID')
  );
}

function saysIncorrectKey(text: Json | undefined): boolean {
  return typeof text === 'string' && text.startsWith('Incorrect API key provided');
}

/** A field of the request, as errors name one. */
const IS_FIELD = /^(?:body\.)?stream_options(?:\.include_usage)?$/;
/** Whole messages that name the field, where no member does: OpenAI's, Go's, Gemini's, Anthropic's. */
const IS_MESSAGE = [
  /^(?:json: )?(?:unknown|unrecognized|unsupported|unexpected)(?: request)? (?:argument|parameter|field)(?: supplied)?:? ["'`]?stream_options(?:\.include_usage)?["'`]?\.?$/i,
  /^Invalid JSON payload received\. Unknown name "stream_options(?:\.include_usage)?"(?:: Cannot find field\.)?$/,
  /^stream_options(?:\.include_usage)?: Extra inputs are not permitted$/,
];
/** No message of those kinds is longer. */
const MAX_MESSAGE_LENGTH = 200;

/**
 * Whether an error says that the provider doesn't know `stream_options`.
 *
 * It has to name the field where errors name fields, or in a message that says nothing else: a client can put the word into an
 * error that quotes what it sent, but not there.
 */
export function saysUsageOptionUnknown(body: string): boolean {
  const document = errorDocument(body);
  if (!document) return false;
  const places = [document, document['error'], document['message'], document['detail']];
  return places.some((place) => {
    const faults = isRecord(place) ? [place['detail'], place['errors']].flat() : [place].flat();
    return rejectsOption(place) || faults.some(rejectsOption);
  });
}

function rejectsOption(fault: Json): boolean {
  if (typeof fault === 'string') return isOptionMessage(fault);
  if (!isRecord(fault)) return false;
  const { param, field, loc, message } = fault;
  if (Array.isArray(loc)) return IS_FIELD.test(loc.join('.'));
  return (
    [param, field].some((name) => typeof name === 'string' && IS_FIELD.test(name)) || isOptionMessage(message)
  );
}

function isOptionMessage(text: Json): boolean {
  return (
    typeof text === 'string' &&
    text.length <= MAX_MESSAGE_LENGTH &&
    IS_MESSAGE.some((pattern) => pattern.test(text))
  );
}

/** Gemini's errors are a list. */
function errorDocument(body: string): Readonly<Record<string, Json>> | undefined {
  const answer = parseJson(body);
  const document = Array.isArray(answer) ? answer[0] : answer;
  return isRecord(document) ? document : undefined;
}
