import type { IncomingHttpHeaders } from 'node:http';

import { UpstreamError } from '../errors/errors.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import type { ClientConnection } from '../http/exchange.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import type { Answer } from '../http/relay.ts';
import type { Target } from '../catalog/model.ts';
import type { RequestTrace } from '../observability/request-trace.ts';
import type { Agents } from './agents.ts';
import { attempt } from './attempt.ts';
import type { AttemptProgress } from './attempt-progress.ts';
import { peek } from './peek.ts';
import { saysQuotaSpent, saysUsageOptionUnknown } from './provider-errors.ts';
import { type ProviderKey, ProviderKeys } from './provider-keys.ts';
import { exhaustedMs, limitedMs } from './rate-limits.ts';
import { upstreamRequest } from './upstream-request.ts';
import { IncludeUsageSupport } from './include-usage-support.ts';

/** How a client's body is written for a target. */
export interface OutgoingBody {
  /** The bytes for this target, however often they are sent. */
  for(target: Target): (includeUsage: boolean) => BodyChunks;
}

/** A client's request, as it goes to whichever target answers it. */
export interface ProviderRequest {
  /** Whose request it is: what is learned of it counts for others only once several have shown it. */
  readonly account: string;
  readonly clientHeaders: IncomingHttpHeaders;
  readonly body: OutgoingBody;
  /** It streams, and the client did not ask for usage. */
  readonly lacksUsage: boolean;
  /** The client wrote `include_usage: false`. */
  readonly deniesUsage: boolean;
  /** The client's own key for a provider; undefined where the operator's is used. */
  readonly byokKey: (provider: string) => string | undefined;
  readonly client: ClientConnection;
  /** When the client's request came, by `performance.now()`, which is monotonic. */
  readonly startedAt: number;
  /** Called with a key that was ejected, and with a field that a provider rejects. */
  readonly onError: (error: Error) => void;
  readonly trace: RequestTrace | undefined;
}

/** A request that goes to one target. */
interface TargetRequest extends Omit<ProviderRequest, 'body' | 'byokKey'> {
  readonly target: Target;
  readonly body: (includeUsage: boolean) => BodyChunks;
  readonly byokKey: string | undefined;
  readonly progress: AttemptProgress;
  readonly detached: DetachedRead;
}

export interface ProviderAnswer {
  readonly answer: Answer;
  /** The provider was asked for usage that the client did not ask for. */
  readonly asksUsage: boolean;
}

const NO_KEYS: ProviderKey[] = [];

/** A 429 of one key, while others are asked. */
interface RateLimitedAnswer {
  readonly answer: Answer;
  /** It is about the account's money. */
  readonly isSpent: boolean;
}

/** Of two 429s the one that says how long to wait, the first of the same kind; the other one is let go. */
function preferred(kept: RateLimitedAnswer | undefined, next: RateLimitedAnswer): RateLimitedAnswer {
  const [better, other] = kept && (next.isSpent || !kept.isSpent) ? [kept, next] : [next, kept];
  other?.answer.body.destroy();
  return better;
}

/**
 * Sends requests to their providers, with a key that works and in a form that the provider takes.
 *
 * What the provider refuses for a reason of ours (of several keys one that is dead or limited, a field that we added)
 * is sent again without it, on the same target, and remembered; the client never hears of it.
 */
export class ProviderClient {
  readonly #agents: Agents;
  readonly #keys = new ProviderKeys();
  readonly #includeUsage = new IncludeUsageSupport();

  constructor(agents: Agents) {
    this.#agents = agents;
  }

  /** @throws as `attempt` does; an UpstreamError, too, if the provider's key can't be had */
  async send(
    target: Target,
    request: ProviderRequest,
    progress: AttemptProgress,
    detached: DetachedRead,
  ): Promise<ProviderAnswer> {
    const { account, lacksUsage, deniesUsage } = request;
    const byokKey = request.byokKey(target.provider.name);
    const targeted = { ...request, target, body: request.body.for(target), byokKey, progress, detached };
    // A provider that sends it unasked may still leave it out for a client that says so.
    const mustAsk = deniesUsage && target.provider.streamUsage === 'native';
    const asksUsage = lacksUsage && (mustAsk || this.#includeUsage.isSupported(target, account));
    return asksUsage ? this.#sendAskingUsage(targeted) : this.#sendWithKey(targeted, false);
  }

  async #sendAskingUsage(request: TargetRequest): Promise<ProviderAnswer> {
    const { target, account, client, onError } = request;
    const first = await this.#sendWithKey(request, true);
    if (isSuccess(first.answer)) this.#includeUsage.markSupported(target);
    if (first.answer.status !== 400 && first.answer.status !== 422) return first;
    const { text, answer } = await peek(first.answer, client);
    if (!saysUsageOptionUnknown(text)) return { answer, asksUsage: true };

    answer.body.destroy();
    const second = await this.#sendWithKey(request, false);
    const news = isSuccess(second.answer) ? this.#includeUsage.markUnsupported(target, account) : undefined;
    if (news) onError(news);
    return second;
  }

  /**
   * Tries one of the provider's keys after another, until one is neither refused nor limited.
   *
   * Where none is, the answer is the same in whatever order they were asked: a 429 if one of them is limited, before that of a spent
   * quota, before a refusal.
   */
  async #sendWithKey(request: TargetRequest, asksUsage: boolean): Promise<ProviderAnswer> {
    const { byokKey, target } = request;
    const { provider, model } = target;
    const keys = byokKey === undefined ? [...this.#keys.keysFor(provider, model, request.account)] : NO_KEYS;
    let kept: RateLimitedAnswer | undefined;
    try {
      for (let i = 0; ; i++) {
        const key = keys[i];
        let refusal: UpstreamError | undefined;
        try {
          const apiKey = byokKey ?? key?.read();
          const known = apiKey instanceof Promise ? await apiKey : apiKey;
          const answer = await this.#attempt(request, known, asksUsage);
          if (isSuccess(answer)) key?.worked();
          if (!key?.isOneOfSeveral) return { answer, asksUsage };
          if (answer.status !== 429) {
            const forMs = exhaustedMs(answer.received);
            if (forMs > 0) key.limit(target.model, forMs);
            return { answer, asksUsage };
          }
          const peeked = await peek(answer, request.client);
          const isSpent = saysQuotaSpent(peeked.text);
          if (isSpent) ejectKey(key, 'its quota is spent', request);
          else key.limit(target.model, limitedMs(answer.received));
          kept = preferred(kept, { answer: peeked.answer, isSpent });
        } catch (error) {
          if (!key?.isOneOfSeveral || !isKeyRefused(error)) throw error;
          ejectKey(key, error.message, request);
          refusal = error;
        }
        if (i < keys.length - 1) continue;
        // One that was limited when this began may be free by now; or its 429 is the answer.
        keys.push(...this.#keys.untried(provider, model, request.account, keys, kept === undefined));
        if (i < keys.length - 1) continue;
        if (!kept) throw refusal ?? new Error('no key was asked');
        const answer = this.#withShortestWait(kept.answer, request);
        kept = undefined;
        return { answer, asksUsage };
      }
    } finally {
      kept?.answer.body.destroy();
    }
  }

  /** A 429 of one key of several, as it is true of all: until the first is free again. */
  #withShortestWait(answer: Answer, { target, account }: TargetRequest): Answer {
    const ms = Math.ceil(this.#keys.waitMs(target.provider, target.model, account));
    const headers = {
      ...answer.headers,
      'retry-after': String(Math.ceil(ms / 1000)),
      'retry-after-ms': String(ms),
    };
    return { ...answer, headers };
  }

  #attempt(request: TargetRequest, apiKey: string | undefined, includeUsage: boolean): Promise<Answer> {
    const { target, clientHeaders, client, startedAt, byokKey, progress, detached } = request;
    client.throwIfDisconnected();
    const trace = request.trace?.attempt(target);
    const body = request.body(includeUsage);
    const outgoing = upstreamRequest(target, clientHeaders, apiKey, body, this.#agents, trace);
    const terms = {
      timeouts: target.provider.timeouts,
      spentMs: performance.now() - startedAt,
      client,
      detached,
      usesByok: byokKey !== undefined,
      trace,
      progress,
    };
    return attempt(outgoing, terms);
  }
}

function isSuccess({ status }: Answer): boolean {
  return status >= 200 && status < 300;
}

function isKeyRefused(error: unknown): error is UpstreamError {
  return error instanceof UpstreamError && error.code === 'upstream_refused_credentials';
}

function ejectKey(key: ProviderKey, why: string, { target, account, onError }: TargetRequest): void {
  key.eject(account);
  const { name } = target.provider;
  const error = new UpstreamError(
    'upstream_refused_credentials',
    `Of the provider ${JSON.stringify(name)}, ${key.name} is set aside for a minute: ${why}`,
  );
  onError(Object.assign(error, { provider: name }));
}
