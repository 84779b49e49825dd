import type { IncomingHttpHeaders } from 'node:http';

import { type Answer, isLater } from '../async/answer.ts';
import type { Admission, BillingService, HoldRequest } from '../billing/billing-service.ts';
import type { Hold } from '../billing/hold.ts';
import { CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import type { Target } from '../catalog/model.ts';
import { AuthenticationError } from '../errors/key-errors.ts';
import { ModelNotAllowedError, NoMatchingTargetError } from '../errors/model-errors.ts';
import { assertUnambiguous, namesOf } from '../http/apply-body-rules.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import { type BodyMembers, findMembers, NO_MEMBERS } from '../http/body-members.ts';
import type { ClientConnection, Exchange } from '../http/exchange.ts';
import type { ReadRequest } from '../http/read-body.ts';
import type { Authenticator } from '../keys/authenticator.ts';
import type { Caller } from '../keys/caller.ts';
import { countedAs } from '../keys/dimensions.ts';
import type { Dimensions, IdempotencyKey } from '../ledger/contract/ledger-store.ts';
import type { RequestTrace } from '../observability/request-trace.ts';
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

/** A request before its body is read. */
export interface IncomingRequest {
  readonly exchange: Exchange;
  readonly client: ClientConnection;
  readonly caller: Caller;
  /** Arrival time, from `performance.now()`. */
  readonly startedAt: number;
  /** Undefined if no hook needs it. */
  readonly trace: RequestTrace | undefined;
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
): Answer<AdmittedRequest> {
  const members = ruledMembers(planned);
  if (isLater(members)) return admitLater(planned, admission, services, members);
  const asked = services.billing.admit(holdRequest(planned, admission, services));
  const admitted = isLater(asked) ? undefined : withHold(planned, admission, services, members, asked);
  return admitted ?? admitLater(planned, admission, services, members, asked);
}

/** Goes on where something has to be awaited.
 *
 * @param asked - the first answer of the ledger, if it was asked
 */
async function admitLater(
  first: PlannedRequest,
  admission: AdmissionTerms,
  services: AdmitServices,
  ruled: Answer<BodyMembers>,
  asked?: Answer<Admission>,
): Promise<AdmittedRequest> {
  const { exchange } = admission;
  let planned = first;
  let answer = asked;
  for (let changes = 0; changes < MAX_KEY_CHANGES; changes++) {
    const members = await (changes === 0 ? ruled : ruledMembers(planned));
    // One that was here at once, and says that the key was changed, is judged again.
    answer ??= services.billing.admit(holdRequest(planned, admission, services));
    const admitted = withHold(planned, admission, services, members, await answer);
    if (admitted) return admitted;
    const caller = await services.authenticator.refresh(exchange.headers, planned.plan.caller);
    planned = { ...planned, plan: planRequest(caller, planned.modelRequest, services) };
    answer = undefined;
  }
  throw new CreditStoreUnavailableError();
}

function holdRequest(
  { read, plan }: PlannedRequest,
  { exchange, idempotencyKey, said, startedAt }: AdmissionTerms,
  { settings }: AdmitServices,
): HoldRequest {
  const { caller, model, quote } = plan;
  const { endUser, dimensions } = countedAs(caller, said, settings.dimensions);
  return {
    requestId: exchange.id,
    caller,
    model,
    quote,
    stream: read.request.stream,
    idempotencyKey,
    endUser,
    dimensions,
    startedAt,
  };
}

/** The request with its hold; undefined if its key was changed since it was looked up.
 *
 * @throws {RouterError} if it was refused
 */
function withHold(
  { read, plan }: PlannedRequest,
  { exchange, room }: AdmissionTerms,
  { authenticator }: AdmitServices,
  members: BodyMembers,
  { rates, hold, refusal }: Admission,
): AdmittedRequest | undefined {
  const { caller, model, quote, targets, conversation } = plan;
  if (rates) exchange.rateLimitHeaders = rateLimitHeaders(rates);
  if (hold) {
    const inOrder = room?.inOrder(targets) ?? targets;
    return { caller, model, quote, targets: inOrder, conversation, read, members, hold, room };
  }
  if (!refusal) return undefined;
  // The key cache must not serve a key that the ledger rejected.
  if (refusal instanceof AuthenticationError) authenticator.reject(exchange.headers, caller);
  throw refusal;
}

/** Finds the fields that have body rules, and rejects one that a target could read differently, before money is held. */
function ruledMembers({ read, plan }: PlannedRequest): Answer<BodyMembers> {
  const { targets } = plan;
  return targets.some((target) => target.body) ? findRuledMembers(read.body, targets) : NO_MEMBERS;
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
