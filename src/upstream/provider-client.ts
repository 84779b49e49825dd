import { ProviderError, UpstreamAtCapacityError, UpstreamError } from '../errors/upstream-errors.ts';
import { isLater } from '../async/answer.ts';
import type { TimerWheel } from '../async/timer-wheel.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import type { ClientConnection } from '../http/exchange.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import type { ProviderAnswer } from '../http/relay.ts';
import type { Target } from '../catalog/model.ts';
import type { RequestTrace } from '../observability/request-trace.ts';
import type { Transport } from './transport/transport.ts';
import { type ForwardedRequest, upstreamRequest } from './upstream-request.ts';
import { type AnswerTaker, attempt, type AttemptProgress, type AttemptTerms } from './attempt.ts';
import type { Capacity } from './capacity.ts';
import type { Conversation } from './conversations.ts';
import { peek } from './peek.ts';
import { providerError, saysQuotaSpent, saysUsageOptionUnknown } from './provider-errors.ts';
import type { ProviderKey, ProviderKeys } from './provider-keys.ts';
import type { CountedRequest } from './provider-words.ts';
import { limitedMs, limitsLeft } from './rate-limits.ts';
import type { RecentErrors } from './recent-errors.ts';
import type { ByokKeys, RequestRoom } from './request-room.ts';
import { IncludeUsageSupport } from './stream-traits.ts';

/** Writes a client's body for a target. */
export interface OutgoingBody {
  for(target: Target): {
    /** The bytes for this target; they may be sent several times. */
    bytes(includeUsage: boolean): BodyChunks;
  };
}

/** A client's request, before a target is chosen. */
export interface ProviderRequest extends ForwardedRequest {
  readonly requestId: string;
  /** What is learned from the request counts for this account, and for all once several accounts have shown it. */
  readonly account: string;
  readonly body: OutgoingBody;
  /** A stream for which the client did not ask for usage. */
  readonly lacksUsage: boolean;
  /** The client wrote `include_usage: false`. */
  readonly deniesUsage: boolean;
  /** BYOK; the operator's keys are used for the other providers. */
  readonly byokKeys: ByokKeys | undefined;
  /** Prefers the provider's key that served its last turn. */
  readonly conversation: Conversation | undefined;
  /** Undefined where its targets have no limits. */
  readonly room: RequestRoom | undefined;
  /** An estimate of prompt and answer. */
  readonly tokens: number;
  readonly client: ClientConnection;
  /** Arrival time of the client's request, from `performance.now()`. */
  readonly startedAt: number;
  /** Called when a key is ejected, or a provider rejects a field. */
  readonly onError: (error: Error, requestId: string) => void;
  readonly trace: RequestTrace | undefined;
}

/** A request for one target, and the terms of each attempt. */
interface TargetRequest extends AttemptTerms {
  readonly request: ProviderRequest;
  readonly target: Target;
  readonly body: ReturnType<OutgoingBody['for']>;
  readonly byokKey: string | undefined;
}

export interface SendResult {
  readonly answer: ProviderAnswer;
  /** The router asked the provider for usage that the client did not ask for. */
  readonly asksUsage: boolean;
  /** The name of the provider's key; undefined for a client's own, and for a provider without keys. */
  readonly key: string | undefined;
  /** Undefined for a client's own key, and where no key has served it. */
  readonly counted: CountedRequest | undefined;
}

const NO_KEYS: readonly ProviderKey[] = [];

/** A 429 for one key, while other keys are tried. */
interface RateLimitedAnswer {
  readonly answer: ProviderAnswer;
  /** The 429 is about a spent quota, not a rate. */
  readonly isSpent: boolean;
}

/** Of two 429s, keeps the one about a rate, else the first; destroys the other. */
function preferred(kept: RateLimitedAnswer | undefined, next: RateLimitedAnswer): RateLimitedAnswer {
  const [better, other] = kept && (next.isSpent || !kept.isSpent) ? [kept, next] : [next, kept];
  other?.answer.body.destroy();
  return better;
}

/** Sends requests to their providers, with a working key and without fields that the provider rejects.
 *
 * If the provider rejects a request because of the router (a dead or rate-limited key of several, a field that the router
 * added), it is sent again without that, to the same target. The client never sees the rejection, and the router remembers it.
 */
export class ProviderClient {
  readonly #transport: Transport;
  readonly #keys: ProviderKeys;
  readonly #errors: RecentErrors;
  readonly #capacity: Capacity;
  readonly #wheel: TimerWheel;
  readonly #includeUsage = new IncludeUsageSupport();

  constructor(
    transport: Transport,
    keys: ProviderKeys,
    errors: RecentErrors,
    capacity: Capacity,
    wheel: TimerWheel,
  ) {
    this.#transport = transport;
    this.#keys = keys;
    this.#errors = errors;
    this.#capacity = capacity;
    this.#wheel = wheel;
  }

  /**
   * @throws as `AnswerTaker.reject` says, and an UpstreamError if the provider's key can't be read; at once, or by rejecting
   * @throws {UpstreamAtCapacityError} if the target has no room: nothing was sent then
   */
  send(
    target: Target,
    request: ProviderRequest,
    progress: AttemptProgress,
    detached: DetachedRead,
  ): Promise<SendResult> {
    const { account, lacksUsage, deniesUsage } = request;
    const byokKey = request.byokKeys?.of(target.provider.name);
    const targeted: TargetRequest = {
      request,
      target,
      body: request.body.for(target),
      byokKey,
      usesByok: byokKey !== undefined,
      transport: this.#transport,
      timeouts: target.provider.timeouts,
      wheel: this.#wheel,
      startedAt: request.startedAt,
      client: request.client,
      detached,
      progress,
    };
    // A provider that sends usage by default may omit it for `include_usage: false`.
    const mustAsk = deniesUsage && target.provider.streamUsage === 'native';
    const asksUsage = lacksUsage && (mustAsk || this.#includeUsage.isSupported(target, account));
    return asksUsage ? this.#sendAskingUsage(targeted) : this.#sendWithKey(targeted, false);
  }

  async #sendAskingUsage(targeted: TargetRequest): Promise<SendResult> {
    const { target, request } = targeted;
    const { requestId, account, client, onError } = request;
    const first = await this.#sendWithKey(targeted, true);
    if (isSuccess(first.answer)) this.#includeUsage.markSupported(target);
    if (first.answer.status !== 400 && first.answer.status !== 422) return first;
    const { text, answer } = await peek(first.answer, client);
    if (!saysUsageOptionUnknown(text)) return { ...first, answer };

    answer.body.destroy();
    const second = await this.#sendWithKey(targeted, false);
    const news = isSuccess(second.answer) ? this.#includeUsage.markUnsupported(target, account) : undefined;
    if (news) onError(news, requestId);
    return second;
  }

  /** Sends it with the client's own key, or with the provider's. */
  #sendWithKey(targeted: TargetRequest, asksUsage: boolean): Promise<SendResult> {
    const { byokKey, target, request } = targeted;
    const { account, conversation, room } = request;
    const { provider, model } = target;
    const preferred = room?.keyAt(target) ?? conversation?.keyAt(target);
    const keys = byokKey === undefined ? this.#keys.keysFor(provider, model, account, preferred) : NO_KEYS;
    const [key] = keys;
    if (key?.isOneOfSeveral) return this.#sendWithOneOf(keys, targeted, asksUsage);
    const apiKey = byokKey ?? key?.read();
    return isLater(apiKey)
      ? this.#readAndSend(key, apiKey, targeted, asksUsage)
      : this.#sendWithOnly(key, apiKey, targeted, asksUsage);
  }

  async #readAndSend(
    key: ProviderKey | undefined,
    reading: Promise<string>,
    targeted: TargetRequest,
    asksUsage: boolean,
  ): Promise<SendResult> {
    return this.#sendWithOnly(key, await reading, targeted, asksUsage);
  }

  /** @param key - undefined for a client's own key, and for a provider without keys */
  #sendWithOnly(
    key: ProviderKey | undefined,
    apiKey: string | undefined,
    targeted: TargetRequest,
    asksUsage: boolean,
  ): Promise<SendResult> {
    const { target, request } = targeted;
    if (targeted.byokKey === undefined) request.room?.assertTaken(target, key?.name);
    // The operator's limits don't concern this attempt, and the one before is over.
    else request.room?.end();
    const counted =
      targeted.byokKey === undefined
        ? this.#capacity.sent(target, key?.name ?? '', request.tokens)
        : undefined;
    const sent = Promise.withResolvers<SendResult>();
    const taker = new OnlyKey(key, { targeted, asksUsage, counted }, this.#capacity, sent);
    this.#attempt(targeted, apiKey, asksUsage, taker);
    return sent.promise;
  }

  /** Tries the provider's keys until one is neither rejected nor rate-limited.
   *
   * If all fail, the answer doesn't depend on their order: a 429 about a rate goes before one about a spent quota, and
   * that before a rejected key.
   */
  async #sendWithOneOf(
    first: readonly ProviderKey[],
    targeted: TargetRequest,
    asksUsage: boolean,
  ): Promise<SendResult> {
    const { target, request } = targeted;
    const { account, client } = request;
    const { provider, model } = target;
    let keys = first;
    let kept: RateLimitedAnswer | undefined;
    let refusal: UpstreamError | undefined;
    try {
      for (let i = 0; ; i++) {
        // A key that was rate-limited at first may be free by now.
        if (i === keys.length) {
          keys = [...keys, ...this.#keys.untried(provider, model, account, keys, kept === undefined)];
        }
        const key = keys[i];
        if (!key) break;
        if (request.room?.take(target, key.name) === false) continue;
        try {
          const apiKey = await key.read();
          const counted = this.#capacity.sent(target, key.name, request.tokens);
          const answered = Promise.withResolvers<ProviderAnswer>();
          this.#attempt(targeted, apiKey, asksUsage, answered);
          const answer = await answered.promise;
          if (isSuccess(answer)) key.worked();
          key.answered(model, answer.received);
          const forMs = noteLimits(this.#capacity, target, key, counted, answer);
          if (answer.status !== 429) {
            if (forMs > 0) key.limit(target.model, forMs);
            return { answer, asksUsage, key: key.name, counted };
          }
          const peeked = await peek(answer, client);
          const isSpent = saysQuotaSpent(peeked.text);
          if (isSpent) this.#eject(key, 'its quota is spent', providerError(429, peeked.text), targeted);
          else key.limit(target.model, limitedMs(answer.received));
          kept = preferred(kept, { answer: peeked.answer, isSpent });
        } catch (error) {
          if (!isKeyRefused(error)) throw error;
          const { cause, message } = error;
          const why = cause instanceof ProviderError ? `the provider rejected it (${cause.status})` : message;
          this.#eject(key, why, cause, targeted);
          refusal = error;
        }
      }
      if (!kept) throw refusal ?? new UpstreamAtCapacityError(request.room?.waitMs(target) ?? Infinity);
      const answer = this.#withShortestWait(kept.answer, targeted);
      kept = undefined;
      return { answer, asksUsage, key: undefined, counted: undefined };
    } finally {
      kept?.answer.body.destroy();
    }
  }

  #eject(key: ProviderKey, why: string, cause: unknown, { target, request }: TargetRequest): void {
    key.eject(request.account);
    const { provider, model } = target;
    const error = new UpstreamError(
      'upstream_refused_credentials',
      `Provider ${JSON.stringify(provider.name)}: ${key.name} is not used for one minute: ${why}`,
    );
    Object.assign(error, { provider: provider.name, model, ...(cause !== undefined && { cause }) });
    this.#errors.add(target, request.requestId, error);
    request.onError(error, request.requestId);
  }

  /** The 429 of one key with a `retry-after` for all keys: until the first one is free. */
  #withShortestWait(answer: ProviderAnswer, { target, request }: TargetRequest): ProviderAnswer {
    const ms = Math.ceil(this.#keys.waitMs(target.provider, target.model, request.account));
    const headers = {
      ...answer.headers,
      'retry-after': String(Math.ceil(ms / 1000)),
      'retry-after-ms': String(ms),
    };
    return { ...answer, headers };
  }

  #attempt(
    targeted: TargetRequest,
    apiKey: string | undefined,
    includeUsage: boolean,
    taker: AnswerTaker,
  ): void {
    const { target, request, body, client } = targeted;
    client.throwIfDisconnected();
    const trace = request.trace?.attempt(target);
    const outgoing = upstreamRequest(target, request, apiKey, body.bytes(includeUsage), trace);
    attempt(outgoing, targeted, trace, taker);
  }
}

/** Takes the answer to a request that was sent with a provider's only key, or with none of the provider's. */
class OnlyKey implements AnswerTaker {
  readonly #key: ProviderKey | undefined;
  readonly #request: OnlyKeyRequest;
  readonly #capacity: Capacity;
  readonly #sent: PromiseWithResolvers<SendResult>;

  constructor(
    key: ProviderKey | undefined,
    request: OnlyKeyRequest,
    capacity: Capacity,
    sent: PromiseWithResolvers<SendResult>,
  ) {
    this.#key = key;
    this.#request = request;
    this.#capacity = capacity;
    this.#sent = sent;
  }

  resolve(answer: ProviderAnswer): void {
    const key = this.#key;
    const { targeted, asksUsage, counted } = this.#request;
    const { target } = targeted;
    if (isSuccess(answer)) key?.worked();
    else if (answer.status === 429) key?.limit(target.model, limitedMs(answer.received));
    key?.answered(target.model, answer.received);
    if (counted) noteLimits(this.#capacity, target, key, counted, answer);
    this.#sent.resolve({ answer, asksUsage, key: key?.name, counted });
  }

  reject(error: unknown): void {
    // The only key is used all the same: operators see that it was rejected.
    if (isKeyRefused(error)) this.#key?.eject(this.#request.targeted.request.account);
    this.#sent.reject(error);
  }
}

interface OnlyKeyRequest extends Pick<SendResult, 'asksUsage' | 'counted'> {
  readonly targeted: TargetRequest;
}

/**
 * Remembers what the key has left, as its answer says. Returns for how long it has nothing, in ms; 0 if it has something.
 *
 * @param counted - the request, as `Capacity.sent` returned it
 */
function noteLimits(
  capacity: Capacity,
  target: Target,
  key: ProviderKey | undefined,
  counted: CountedRequest,
  { received, status }: ProviderAnswer,
): number {
  const left = limitsLeft(received);
  const { exhaustedMs } = left;
  // Clients make up names of models behind a wildcard: those don't each have a word.
  capacity.answered(target, key?.name ?? '', counted, status === 404 ? { exhaustedMs } : left);
  return exhaustedMs;
}

function isSuccess({ status }: ProviderAnswer): boolean {
  return status >= 200 && status < 300;
}

function isKeyRefused(error: unknown): error is UpstreamError {
  return error instanceof UpstreamError && error.code === 'upstream_refused_credentials';
}
