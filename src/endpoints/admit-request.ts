import type { IncomingHttpHeaders } from 'node:http';

import { type Answer, andThen } from '../async/answer.ts';
import type { BillingService } from '../billing/billing-service.ts';
import type { Hold } from '../billing/hold.ts';
import { CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import type { Target } from '../catalog/model.ts';
import { AuthenticationError } from '../errors/key-errors.ts';
import { ModelNotAllowedError, NoMatchingTargetError } from '../errors/model-errors.ts';
import { assertUnambiguous, namesOf } from '../http/apply-body-rules.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import { type BodyMembers, findMembers, NO_MEMBERS } from '../http/body-members.ts';
import type { Exchange } from '../http/exchange.ts';
import type { ReadRequest } from '../http/read-body.ts';
import type { Authenticator } from '../keys/authenticator.ts';
import type { Caller } from '../keys/caller.ts';
import { countedAs } from '../keys/dimensions.ts';
import type { Dimensions, IdempotencyKey } from '../ledger/contract/ledger-store.ts';
import type { Settings } from '../options/resolve-options.ts';
import { type ModelRequest, planRequest, type PlanServices, type RequestPlan } from './plan-request.ts';
import type { RequestRoom, RoomServices } from '../upstream/request-room.ts';
import type { KeyRates } from '../ledger/contract/key-records.ts';

/** Attempts before giving up on a key that changes while its request is being admitted. */
const MAX_KEY_CHANGES = 5;

export interface AdmitServices extends PlanServices, RoomServices {
  readonly authenticator: Pick<Authenticator, 'refresh' | 'reject'>;
  readonly billing: BillingService;
  readonly settings: Settings;
}

/** A request that was read and planned. */
export interface PlannedRequest {
  readonly read: ReadRequest;
  readonly modelRequest: ModelRequest;
  readonly plan: RequestPlan;
}

/** What its admission depends on beside its plan. */
export interface AdmissionTerms {
  readonly exchange: Exchange;
  readonly idempotencyKey: IdempotencyKey | undefined;
  /** Whom and what the request is for, beside what its caller says. */
  readonly said: Dimensions | undefined;
  /** Arrival time, from `performance.now()`. */
  readonly startedAt: number;
  /** What is reserved at its targets. */
  readonly room: RequestRoom | undefined;
}

/** A request with a hold. */
export interface AdmittedRequest extends RequestPlan {
  readonly read: ReadRequest;
  readonly hold: Hold;
  /** Positions of the fields that the targets have body rules for. */
  readonly members: BodyMembers;
  /** Undefined where its targets have no limits. */
  readonly room: RequestRoom | undefined;
}

/** Plans a request. Before a model is denied, or its targets for their labels, the key is looked up again: another process
 * may have allowed them since.
 *
 * @throws as `planRequest`
 */
export function planFor(
  caller: Caller,
  headers: IncomingHttpHeaders,
  modelRequest: ModelRequest,
  services: AdmitServices,
): Answer<RequestPlan> {
  try {
    return planRequest(caller, modelRequest, services);
  } catch (error) {
    const isByPolicy =
      error instanceof ModelNotAllowedError ||
      (error instanceof NoMatchingTargetError && caller.require !== undefined);
    const isFinal = caller.externalKey && !caller.accountVersion;
    if (!isByPolicy || isFinal) throw error;
  }
  const refreshed = services.authenticator.refresh(headers, caller);
  return refreshed.then((current) => planRequest(current, modelRequest, services));
}

/** Holds what a plan may cost, in one round trip. If the key was changed since it was looked up, the request is
 * planned again with the current key.
 * @throws {RouterError} with the reason; nothing is held then
 */
export function admitRequest(
  planned: PlannedRequest,
  admission: AdmissionTerms,
  services: AdmitServices,
  changes = 0,
): Answer<AdmittedRequest> {
  if (changes === MAX_KEY_CHANGES) throw new CreditStoreUnavailableError();
  const { exchange, idempotencyKey, said, startedAt, room } = admission;
  const { read, modelRequest } = planned;
  const { caller, model, quote, targets, conversation } = planned.plan;
  const { stream } = read.request;
  return andThen(ruledMembers(read.body, targets), (members) => {
    const { endUser, dimensions } = countedAs(caller, said, services.settings.dimensions);
    const terms = {
      requestId: exchange.id,
      caller,
      model,
      quote,
      stream,
      idempotencyKey,
      endUser,
      dimensions,
      startedAt,
    };
    return andThen(services.billing.admit(terms), ({ rates, hold, refusal }) => {
      if (rates) exchange.rateLimitHeaders = rateLimitHeaders(rates);
      if (hold) {
        const inOrder = room?.inOrder(targets) ?? targets;
        return { caller, model, quote, targets: inOrder, conversation, read, members, hold, room };
      }
      if (refusal) {
        // The key cache must not serve a key that the ledger rejected.
        if (refusal instanceof AuthenticationError) services.authenticator.reject(exchange.headers, caller);
        throw refusal;
      }
      const refreshed = services.authenticator.refresh(exchange.headers, caller);
      return refreshed.then((current) =>
        admitRequest(
          { read, modelRequest, plan: planRequest(current, modelRequest, services) },
          admission,
          services,
          changes + 1,
        ),
      );
    });
  });
}

/** Finds the fields that have body rules, and rejects one that a target could read differently, before money is held. */
function ruledMembers(body: BodyChunks, targets: readonly Target[]): Answer<BodyMembers> {
  return targets.some((target) => target.body) ? findRuledMembers(body, targets) : NO_MEMBERS;
}

async function findRuledMembers(body: BodyChunks, targets: readonly Target[]): Promise<BodyMembers> {
  const rules = targets.flatMap((target) => target.body?.rules ?? []);
  const members = await findMembers(body, new Set(rules.flatMap(namesOf)));
  assertUnambiguous(rules, members);
  return members;
}

/** The remaining requests and tokens of a key's limits per minute, as OpenAI's `x-ratelimit-*` headers. */
export function rateLimitHeaders({ requests, tokens }: KeyRates): Readonly<Record<string, string>> {
  return {
    ...(requests && {
      'x-ratelimit-limit-requests': String(requests.limit),
      'x-ratelimit-remaining-requests': String(requests.remaining),
      'x-ratelimit-reset-requests': duration(requests.resetMs),
    }),
    ...(tokens && {
      'x-ratelimit-limit-tokens': String(tokens.limit),
      'x-ratelimit-remaining-tokens': String(tokens.remaining),
      'x-ratelimit-reset-tokens': duration(tokens.resetMs),
    }),
  };
}

/** A duration in Go's format, which OpenAI uses: `20ms`, `8.64s`, `6m0s`, `1h0m0s`. */
export function duration(ms: number): string {
  if (ms > 0 && ms < 1000) return `${ms}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${(ms - minutes * 60_000) / 1000}s`;
  if (minutes === 0) return seconds;
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}
