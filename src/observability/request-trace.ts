import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http';

import { RouterError } from '../errors/errors.ts';
import type { AttemptEnded, AttemptStarted, EndpointName, RequestStarted, ResponseEnded } from './hooks.ts';
import type { Ending } from '../ledger/contract/ledger-store.ts';
import { ContentRecorder, type RecordedCompletion } from './content-capture.ts';

/** Asks the hooks for the headers that they want to add to an attempt. */
export type UpstreamHeaders = (attempt: AttemptStarted) => readonly Readonly<Record<string, string>>[];

/** A request as it came, as far as it is noted. */
export interface TracedRequest {
  readonly id: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** A response, as far as it is noted. */
interface TracedResponse {
  readonly headersSent: boolean;
  readonly statusCode: number;
}

/** A target, as far as it is noted. */
interface TracedTarget {
  readonly provider: { readonly name: string; readonly origin: URL };
  /** The model's name there. */
  readonly model: string;
  /** The same, with the star of a wildcard. */
  readonly healthKey: string;
}

/** What became of a request for which money was held. */
interface TracedOutcome {
  readonly ending: Ending;
  readonly target: TracedTarget;
  readonly answer?: { readonly meter: { readonly finishReason: string | undefined } };
}

/** How the relay of its answer ended. */
interface TracedEnd {
  readonly firstByteAt: number | undefined;
  readonly error?: Error;
}

/** What nginx logs for a client that left before there was a status. */
const CLIENT_CLOSED_REQUEST = 499;
const MAX_PATH_LENGTH = 256;

/**
 * What is noted of a request on its way, for `onResponse`.
 *
 * There is none where no hook wants to know, and nothing of a request's way depends on it: it is written here and
 * read by hooks alone.
 */
export class RequestTrace {
  readonly started: RequestStarted;
  /** Undefined where no hook wants to have the content of a completion. */
  readonly content: ContentRecorder | undefined;
  readonly #since = performance.now();
  readonly #askHeaders: UpstreamHeaders | undefined;
  readonly #attempts: AttemptTrace[] = [];
  #caller: Pick<ResponseEnded, 'account' | 'key'> = {};
  #model: string | undefined;
  #wildcard: string | undefined;
  #stream = false;
  #admitted = false;
  #outcome: TracedOutcome | undefined;
  #firstByteMs: number | undefined;
  #errorCode: string | undefined;

  constructor(
    request: TracedRequest,
    path: string,
    endpoint: EndpointName | undefined,
    askHeaders: UpstreamHeaders | undefined,
    content: ContentRecorder | undefined,
  ) {
    this.#askHeaders = askHeaders;
    this.content = content;
    const { id, method, headers } = request;
    const clientRequestId = matching(headers['x-request-id'], FOREIGN_REQUEST_ID);
    const traceparent = matching(headers['traceparent'], TRACEPARENT);
    const tracestate = matching(headers['tracestate'], TRACESTATE);
    this.started = {
      requestId: id,
      endpoint,
      method,
      path: path.slice(0, MAX_PATH_LENGTH),
      startedAt: Date.now(),
      ...(clientRequestId !== undefined && { clientRequestId }),
      ...(traceparent !== undefined && { traceparent }),
      ...(tracestate !== undefined && { tracestate }),
    };
  }

  /** Its key is known. */
  authenticated({ account, key }: { readonly account: string; readonly key: string }): void {
    this.#caller = { account, key };
  }

  /** It is for a model that there is. */
  modelResolved(
    { id, wildcard }: { readonly id: string; readonly wildcard: string | undefined },
    stream: boolean,
  ): void {
    this.#model = id;
    this.#wildcard = wildcard;
    this.#stream = stream;
  }

  /** Money is held for it. */
  admitted(body: readonly Buffer[]): void {
    this.#admitted = true;
    if (this.content) for (const piece of body) this.content.request.add(piece);
  }

  /** A request goes out to a provider now. */
  attempt(target: TracedTarget): AttemptTrace {
    const attempt = new AttemptTrace(target, this.started.requestId, this.#attempts.length, this.#askHeaders);
    this.#attempts.push(attempt);
    return attempt;
  }

  /** The answer to the last one turned out to be none. */
  attemptFailed(error: Error): void {
    this.#attempts.at(-1)?.failed(errorCodeOf(error));
  }

  /** What was held for is over; `startedAt` and `firstByteAt` are by the same clock. */
  ended(outcome: TracedOutcome, startedAt: number, end: TracedEnd | undefined): void {
    this.#outcome = outcome;
    if (end?.firstByteAt !== undefined) this.#firstByteMs = toMicroseconds(end.firstByteAt - startedAt);
    if (outcome.ending === 'credits_exhausted') this.#errorCode = 'credits_exhausted';
    if (!end?.error) return;
    const { error } = end;
    // A socket's own error has no code that a client could have been told.
    const isCut = !(error instanceof RouterError) && outcome.ending !== 'failed';
    this.#errorCode = isCut ? 'upstream_cut' : errorCodeOf(error);
    this.#attempts.at(-1)?.failed(this.#errorCode);
  }

  /** The client was refused, or would have been had it waited. */
  refused(error: RouterError): void {
    this.#errorCode = error.code;
  }

  /** Whose content was recorded; undefined where no money was held. */
  completion(): RecordedCompletion | undefined {
    const { account, key } = this.#caller;
    const provider = this.#outcome?.target.provider.name;
    if (account === undefined || key === undefined || this.#model === undefined || provider === undefined)
      return undefined;
    const { requestId } = this.started;
    return { requestId, account, key, model: this.#model, provider, stream: this.#stream };
  }

  /** The event, once the response is over. */
  toEvent(response: TracedResponse): ResponseEnded {
    const now = performance.now();
    const { ending, target, answer } = this.#outcome ?? {};
    const finishReason = answer?.meter.finishReason;
    const last = this.#attempts.at(-1);
    return {
      ...this.started,
      status: response.headersSent ? response.statusCode : CLIENT_CLOSED_REQUEST,
      ...(this.#errorCode !== undefined && { errorCode: this.#errorCode }),
      ...this.#caller,
      ...(this.#model !== undefined && { model: this.#model }),
      ...(this.#wildcard !== undefined && { wildcard: this.#wildcard }),
      ...(target && { provider: target.provider.name, upstreamModel: target.model }),
      ...(last?.upstreamRequestId !== undefined && { upstreamRequestId: last.upstreamRequestId }),
      stream: this.#stream,
      attempts: this.#attempts.map((attempt) => attempt.toEvent(attempt === last ? now : undefined)),
      ...(this.#firstByteMs !== undefined && { firstByteMs: this.#firstByteMs }),
      durationMs: toMicroseconds(now - this.#since),
      ...(ending && { ending }),
      ...(finishReason !== undefined && { finishReason }),
      admitted: this.#admitted,
    };
  }
}

/** What is noted of one request to a provider. */
export class AttemptTrace {
  readonly #started: AttemptStarted;
  readonly #since = performance.now();
  readonly #askHeaders: UpstreamHeaders | undefined;
  readonly #healthKey: string;
  #status: number | undefined;
  #errorCode: string | undefined;
  #answeredAt: number | undefined;
  #failedAt: number | undefined;
  upstreamRequestId: string | undefined;

  constructor(
    { provider, model, healthKey: knownAs }: TracedTarget,
    requestId: string,
    index: number,
    askHeaders: UpstreamHeaders | undefined,
  ) {
    const { hostname, port, protocol } = provider.origin;
    this.#askHeaders = askHeaders;
    this.#healthKey = knownAs;
    this.#started = {
      requestId,
      index,
      provider: provider.name,
      model,
      host: hostname,
      port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
      startedAt: Date.now(),
    };
  }

  /** Adds the headers of the hooks to those that go out; what is set stays. */
  addHeaders(headers: Record<string, string>): void {
    for (const given of this.#askHeaders?.(this.#started) ?? []) {
      for (const [name, value] of Object.entries(given)) {
        const key = name.toLowerCase();
        if (!Object.hasOwn(headers, key) && !FRAMING.has(key) && canBeHeader(key, value))
          headers[key] = value;
      }
    }
  }

  /** The head of an answer came. */
  answered(
    { statusCode, headers }: Pick<IncomingMessage, 'statusCode' | 'headers'>,
    apiKey: string | undefined,
  ): void {
    this.#answeredAt = performance.now();
    this.#status = statusCode;
    const id = matching(headers['x-request-id'], FOREIGN_REQUEST_ID);
    // Servers that debug show what they got.
    if (!apiKey || !id?.includes(apiKey)) this.upstreamRequestId = id;
  }

  /** There is no answer, or none that the client can have. The first reason counts. */
  failed(errorCode: string): void {
    this.#errorCode ??= errorCode;
    this.#failedAt ??= performance.now();
  }

  /** @param endedAt - when its answer was over, of the one that was relayed; others are of no use from their heads on */
  toEvent(endedAt: number | undefined): AttemptEnded {
    const { provider, model, host, port, startedAt } = this.#started;
    const until = this.#failedAt ?? endedAt ?? this.#answeredAt ?? this.#since;
    return {
      provider,
      model,
      host,
      port,
      startedAt,
      ...(this.#healthKey !== model && { wildcard: this.#healthKey }),
      ...(this.#status !== undefined && { status: this.#status }),
      ...(this.#errorCode !== undefined && { errorCode: this.#errorCode }),
      ...(this.upstreamRequestId !== undefined && { upstreamRequestId: this.upstreamRequestId }),
      durationMs: toMicroseconds(until - this.#since),
    };
  }
}

/** Ms with three decimals: the rest is noise in a log. */
function toMicroseconds(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

/** What makes a message of its bytes: two opinions of that in one request are an attack. */
const FRAMING: ReadonlySet<string> = new Set([
  'connection',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

function canBeHeader(name: string, value: unknown): value is string {
  try {
    validateHeaderName(name);
    if (typeof value !== 'string') return false;
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}

const FOREIGN_REQUEST_ID = /^[\w.:=+/@-]{1,128}$/;
const TRACEPARENT = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}[\x21-\x7e]{0,64}$/;
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;

/** A header of the client's, where it has the form that it must have. */
function matching(value: string | readonly string[] | undefined, form: RegExp): string | undefined {
  return typeof value === 'string' && form.test(value) ? value : undefined;
}

/** What an error is called that ended an attempt or a response. */
export function errorCodeOf(error: Error): string {
  if (error instanceof RouterError) return error.code;
  return { ClientDisconnectedError: 'client_gone', Closed: 'router_closing' }[error.name] ?? 'internal_error';
}

/** Whom an observer tells, none of whom can break anything. */
export interface ObserverHooks {
  readonly onRequest: ((started: RequestStarted) => void) | undefined;
  readonly onResponse: ((ended: ResponseEnded) => void) | undefined;
  readonly onContent: ContentHooks | undefined;
  readonly askHeaders: UpstreamHeaders | undefined;
}

/** Who wants to have the content of completions. */
export interface ContentHooks {
  /** The most that any of them wants, in bytes. */
  readonly maxBytes: number;
  emit(completion: RecordedCompletion, content: ContentRecorder): void;
}

/** Notes each request, and tells of its beginning and its end. */
export class Observer {
  readonly #hooks: ObserverHooks;

  constructor(hooks: ObserverHooks) {
    this.#hooks = hooks;
  }

  begin(request: TracedRequest, path: string, endpoint: EndpointName | undefined): RequestTrace {
    const { askHeaders, onContent } = this.#hooks;
    const content =
      onContent && endpoint === 'completions' ? new ContentRecorder(onContent.maxBytes) : undefined;
    const observation = new RequestTrace(request, path, endpoint, askHeaders, content);
    this.#hooks.onRequest?.(observation.started);
    return observation;
  }

  end(observation: RequestTrace, response: TracedResponse): void {
    const { content } = observation;
    const completion = content && observation.completion();
    if (completion) this.#hooks.onContent?.emit(completion, content);
    this.#hooks.onResponse?.(observation.toEvent(response));
  }
}
