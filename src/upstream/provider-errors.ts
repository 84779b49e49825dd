import { isRecord, type Json, parseJson } from '../catalog/json-value.ts';
import { withoutCredentials } from '../platform/without-credentials.ts';
import { ProviderError } from '../errors/upstream-errors.ts';

/** Classifies providers' error bodies by their wording. No other file interprets those bodies. */

/** OpenRouter, its guardrails, and xAI. */
const CONTENT_REFUSED =
  /content[ _]policy|content[ _]filter|flagged_input|input was flagged|requires moderation|violates usage guidelines|prompt injection/i;

/** Whether a 403 is about the content of the request, not about the operator's account. */
export function saysContentRefused(body: string): boolean {
  return CONTENT_REFUSED.test(body);
}

/** OpenAI, Azure, vLLM, Groq and OpenRouter; Anthropic; Gemini; llama.cpp and others. */
const TOO_LONG =
  /context_length_exceeded|(maximum|available) context (length|size|window)|prompt is too long|input token count[^"]{0,40}exceeds|exceed_context_size/i;

/** Statuses that providers use for a prompt that is too long. */
export function mayBeTooLong(status: number): boolean {
  return status === 400 || status === 413 || status === 422;
}

/** Whether an error says that the prompt exceeds this target's context window; another may have a larger one. */
export function saysTooLong(body: string): boolean {
  return TOO_LONG.test(body);
}

/** Of a 429: OpenAI, Gemini, Moonshot, Zhipu, MiniMax. */
const QUOTA_SPENT =
  /insufficient_?\s?(quota|balance|funds)|exceeded_?\s?(your_?\s?)?current_?\s?quota|billing|余额/i;

/** Whether a 429 is about a spent quota, not about a rate. */
export function saysQuotaSpent(body: string): boolean {
  return QUOTA_SPENT.test(body);
}

/** Whether a 400 is about the API key, like the 401 of other providers: LiteLLM without a database, Gemini, xAI.
 *
 * Reads only the members of the error, as a provider may echo the client's input beside them.
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

/** How errors name the field. */
const OPTION_FIELD = /^(?:body\.)?stream_options(?:\.include_usage)?$/;
/** Complete messages that name the field, for errors without such a member: OpenAI's, Go's, Gemini's, Anthropic's. */
const OPTION_MESSAGES = [
  /^(?:json: )?(?:unknown|unrecognized|unsupported|unexpected)(?: request)? (?:argument|parameter|field)(?: supplied)?:? ["'`]?stream_options(?:\.include_usage)?["'`]?\.?$/i,
  /^Invalid JSON payload received\. Unknown name "stream_options(?:\.include_usage)?"(?:: Cannot find field\.)?$/,
  /^stream_options(?:\.include_usage)?: Extra inputs are not permitted$/,
];
/** Those messages are shorter. */
const MAX_MESSAGE_LENGTH = 200;

/** Whether an error says that the provider doesn't know `stream_options`.
 *
 * The error must name the field in a member for field names, or in a message that says nothing else. A client can put the
 * word into an error that quotes its input, but not there.
 */
export function saysUsageOptionUnknown(body: string): boolean {
  const document = errorDocument(body);
  if (!document) return false;
  const candidates = [document, document['error'], document['message'], document['detail']];
  return candidates.some((candidate) => {
    const faults = isRecord(candidate)
      ? [candidate['detail'], candidate['errors']].flat()
      : [candidate].flat();
    return rejectsOption(candidate) || faults.some(rejectsOption);
  });
}

function rejectsOption(fault: Json): boolean {
  if (typeof fault === 'string') return isOptionMessage(fault);
  if (!isRecord(fault)) return false;
  const { param, field, loc, message } = fault;
  if (Array.isArray(loc)) return OPTION_FIELD.test(loc.join('.'));
  return (
    [param, field].some((name) => typeof name === 'string' && OPTION_FIELD.test(name)) ||
    isOptionMessage(message)
  );
}

function isOptionMessage(text: Json): boolean {
  return (
    typeof text === 'string' &&
    text.length <= MAX_MESSAGE_LENGTH &&
    OPTION_MESSAGES.some((pattern) => pattern.test(text))
  );
}

/** The error document; Gemini wraps it in a list. */
function errorDocument(body: string): Readonly<Record<string, Json>> | undefined {
  const answer = parseJson(body);
  const document = Array.isArray(answer) ? answer[0] : answer;
  return isRecord(document) ? document : undefined;
}

/** What an error answer says, for the operator. Nothing but its message and code is read. */
export function providerError(status: number, body: string): ProviderError {
  const document = errorDocument(body) ?? {};
  const { error, message, detail, code } = document;
  const inner = isRecord(error) ? error : {};
  const said = [inner['message'], error, message, detail].find((each) => typeof each === 'string');
  const named = [inner['code'], inner['type'], inner['status'], code].find(isCode);
  return new ProviderError(said === undefined ? NO_MESSAGE : masked(said), status, named);
}

const NO_MESSAGE = 'The provider gave no message.';

/** Whether the provider said nothing of its error. */
export function isSilent({ message, code }: ProviderError): boolean {
  return message === NO_MESSAGE && code === undefined;
}

/** Not a text, which could quote the prompt. */
function isCode(given: Json | undefined): given is string {
  return typeof given === 'string' && /^[\w.:-]{1,64}$/.test(given);
}

/**
 * The error in an answer with a success status: the whole body, or an event of its stream.
 *
 * @param secret - the key of this request, to be redacted
 */
export function errorInAnswer(status: number, text: string, secret: string | undefined): ProviderError {
  const body = secret === undefined ? text : text.replaceAll(secret, '***');
  const events = body.split(/\r\n|\r|\n/).flatMap((line) => /^data: ?(\{.*)/.exec(line)?.[1] ?? []);
  const failed = events.findLast((event) => errorDocument(event)?.['error'] !== undefined);
  return providerError(status, failed ?? body);
}

/** Keys of the usual forms: the key of this request is redacted already, but a gateway may name one of its own. */
const SECRET =
  /\bBearer \S+|\bAIza[\w-]{20,}|\b(?:sk|csk|gsk|hf|fw|key|nvapi|pplx|r8|tgp|xai)[-_][\w-]{12,}/g;

/** A message on one line of at most 200 characters, without keys and credentials. */
export function masked(text: string): string {
  return withoutCredentials(text.slice(0, 4 * MAX_MESSAGE_LENGTH))
    .replace(SECRET, '***')
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .slice(0, MAX_MESSAGE_LENGTH);
}
