import { type Answer, isLater } from '../async/answer.ts';
import { GuardUnavailableError, RequestRefusedError } from '../errors/hook-errors.ts';
import { RouterError } from '../errors/router-error.ts';
import { byteLength, concatChunks } from '../http/body-chunks.ts';
import { readMessages, withMessages } from '../http/messages.ts';
import { type BodyBuffer, type BodyLimits, type ReadRequest, scanBuffer } from '../http/read-body.ts';
import type { GuardRequest, HookCaller } from '../options/request-hooks.ts';
import type { GuardSettings } from '../options/resolve-request-hooks.ts';
import { callHook, type HookContext, InvalidRefusalError } from './hook-call.ts';
import { isRecord } from '../platform/is-record.ts';

/** A request for the guard. */
export interface GuardedRequest {
  readonly read: ReadRequest;
  readonly caller: HookCaller;
  /** The model's ID for clients. */
  readonly model: string;
  /** Counts the parsed messages; undefined once the body isn't counted any more. */
  readonly buffer?: Pick<BodyBuffer, 'hold'>;
}

/**
 * Asks the app's guard whether a request may be sent.
 *
 * @returns the request with the messages that the guard put in place of the client's; undefined if it passed as it is
 * @throws {RouterError} for the client: refused, or failed
 * @throws {ClientDisconnectedError} if the client leaves first
 */
export function guardRequest(
  { read, caller, model, buffer }: GuardedRequest,
  guard: GuardSettings,
  limits: BodyLimits,
  context: HookContext,
  controller?: AbortController,
): Answer<ReadRequest | undefined> {
  const { messages: span } = read.request;
  // The router releases the body when an answer begins, and the guard when it has answered.
  let body = read.body;
  let counted = buffer;
  const messages: GuardRequest['messages'] = () => {
    if (body.length === 0) throw new Error('messages() must be called before the guard has returned');
    counted?.hold(span.end - span.start);
    counted = undefined;
    return readMessages(body, span, guard.maxBytes);
  };
  const over = (): void => {
    body = [];
    counted = undefined;
  };
  const requestId = context.exchange.id;
  const judge = (answer: unknown): Answer<ReadRequest | undefined> => {
    const replacement = messagesIn(answer);
    if (replacement === undefined) return undefined;
    if (guard.parallel)
      throw new TypeError('guard must not return messages if it is parallel: they were sent');
    return withReplacement(read, replacement, limits);
  };
  const checked = callHook(
    {
      hook: 'guard',
      settings: guard,
      run: (signal) => guard.run({ requestId, caller, model, messages, signal }),
      judge,
      failure: (cause) => new GuardUnavailableError(cause),
      ...(controller && { controller }),
    },
    context,
  );
  if (!isLater(checked)) over();
  return isLater(checked) ? checked.finally(over) : checked;
}

/** What a guard returned, in JSON; undefined if it passed the request. Errors show no content of the request. */
function messagesIn(answer: unknown): string | undefined {
  if (answer === undefined || answer === null) return undefined;
  if (typeof answer === 'object' && Object.hasOwn(answer, 'refuse')) {
    throw refusalOf(Reflect.get(answer, 'refuse'));
  }
  if (typeof answer !== 'object' || !Object.hasOwn(answer, 'messages')) {
    throw new TypeError(`guard must return { refuse }, { messages } or undefined, got ${kindOf(answer)}`);
  }
  const messages: unknown = Reflect.get(answer, 'messages');
  const isList = Array.isArray(messages) && messages.length > 0;
  if (!isList || !messages.every(isRecord)) {
    throw new TypeError('guard must return one or more objects as messages');
  }
  const text: unknown = JSON.stringify(messages);
  if (typeof text !== 'string') throw new TypeError('guard must return messages that can be written as JSON');
  return text;
}

function kindOf(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) return `a ${typeof answer}`;
  if (Array.isArray(answer)) return 'a list';
  return `an object with ${Object.keys(answer).slice(0, 5).join(', ') || 'no members'}`;
}

const CODE = /^[a-z][a-z0-9_]{0,63}$/;
const MAX_MESSAGE_LENGTH = 1000;

function refusalOf(refuse: unknown): RequestRefusedError {
  const { code, message, status = 400 }: Readonly<Record<string, unknown>> = Object(refuse);
  if (typeof code !== 'string' || !CODE.test(code)) {
    throw new InvalidRefusalError(
      'The code of a refusal must be 1 to 64 lower-case letters, digits and _, a letter first.',
    );
  }
  if (typeof message !== 'string' || message === '' || message.length > MAX_MESSAGE_LENGTH) {
    throw new InvalidRefusalError(
      `The message of a refusal must be a text of 1 to ${MAX_MESSAGE_LENGTH} characters.`,
    );
  }
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 400 || status > 499) {
    throw new InvalidRefusalError('The status of a refusal must be an integer from 400 to 499.');
  }
  return new RequestRefusedError(code, message, status);
}

/** Scans the body with other messages, which may contain whatever the client's may not. @throws {TypeError} if it does */
function withReplacement(
  { body, request }: ReadRequest,
  messages: string,
  limits: BodyLimits,
): Answer<ReadRequest> {
  const replaced = withMessages(body, request.messages, messages);
  const length = byteLength(replaced);
  if (length > limits.maxBodyBytes) {
    throw new TypeError(
      `guard returned messages of ${messages.length} characters, which make a body of ${length} bytes; maxBodyBytes is ${limits.maxBodyBytes}`,
    );
  }
  const refused = (error: unknown): never => {
    if (!(error instanceof RouterError)) throw error;
    throw new TypeError(`guard returned messages that are no valid request: ${error.message}`);
  };
  try {
    const scanned = scanBuffer(concatChunks(replaced), limits);
    return isLater(scanned) ? scanned.catch(refused) : scanned;
  } catch (error) {
    return refused(error);
  }
}
