import type { IncomingHttpHeaders } from 'node:http';

import type { BillingService } from '../billing/billing-service.ts';
import type { Hold } from '../billing/hold.ts';
import { AuthenticationError, CreditStoreUnavailableError, ModelNotAllowedError } from '../errors/errors.ts';
import { assertUnambiguous, namesOf } from '../http/apply-body-rules.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import { type BodyMembers, findMembers, NO_MEMBERS } from '../http/body-members.ts';
import type { Exchange } from '../http/exchange.ts';
import { rateLimitHeaders } from '../http/rate-limit-headers.ts';
import type { ReadRequest } from '../http/read-body.ts';
import type { Authenticator } from '../keys/authenticator.ts';
import type { Caller } from '../keys/caller.ts';
import type { IdempotencyKey } from '../ledger/contract/ledger-store.ts';
import { type ModelRequest, planRequest, type PlanServices, type RequestPlan } from './plan-request.ts';

/** Attempts before giving up on a key that is changed again while its request is admitted. */
const MAX_KEY_CHANGES = 5;

export interface AdmitServices extends PlanServices {
  readonly authenticator: Pick<Authenticator, 'refresh' | 'invalidate'>;
  readonly billing: BillingService;
}

/** What is to be admitted. */
export interface AdmissionRequest {
  readonly exchange: Exchange;
  readonly read: ReadRequest;
  readonly modelRequest: ModelRequest;
  readonly idempotencyKey: IdempotencyKey | undefined;
  /** When it arrived, by `performance.now()`. */
  readonly startedAt: number;
}

/** A request whose money is held. */
export interface AdmittedRequest extends RequestPlan {
  readonly read: ReadRequest;
  readonly hold: Hold;
  /** Where the fields are that the targets have rules for. */
  readonly members: BodyMembers;
}

/**
 * The plan of a request. A key that may not use the model is looked up again first: another process may have
 * allowed it since.
 *
 * @throws as `planRequest`
 */
export async function planFor(
  caller: Caller,
  headers: IncomingHttpHeaders,
  asked: ModelRequest,
  services: AdmitServices,
): Promise<RequestPlan> {
  try {
    return planRequest(caller, asked, services);
  } catch (error) {
    if (!(error instanceof ModelNotAllowedError) || caller.externalKey) throw error;
  }
  return planRequest(await services.authenticator.refresh(headers, caller), asked, services);
}

/**
 * Holds what a plan may cost, in one round trip. If the key was changed since it was looked up, the request is
 * planned again with the key as it is now.
 *
 * @throws a RouterError that says what refused it; nothing is held then
 */
export async function admitRequest(
  first: RequestPlan,
  { exchange, read, modelRequest: asked, idempotencyKey, startedAt }: AdmissionRequest,
  services: AdmitServices,
): Promise<AdmittedRequest> {
  let plan = first;
  for (let changes = 0; changes < MAX_KEY_CHANGES; changes++) {
    const { caller, model, quote } = plan;
    const { stream } = read.request;
    const members = plan.targets.some(({ body }) => body) ? await ruledMembers(read.body, plan) : NO_MEMBERS;
    const terms = { requestId: exchange.id, caller, model, quote, stream, idempotencyKey, startedAt };
    const { rates, hold, refusal } = await services.billing.admit(terms);
    if (rates) exchange.rateLimitHeaders = rateLimitHeaders(rates);
    if (hold) return { ...plan, read, members, hold };
    if (refusal) {
      // A key that the ledger refused is forgotten here too.
      if (refusal instanceof AuthenticationError) {
        services.authenticator.invalidate(caller.account, caller.key);
      }
      throw refusal;
    }
    plan = planRequest(await services.authenticator.refresh(exchange.headers, caller), asked, services);
  }
  throw new CreditStoreUnavailableError();
}

/** Before money is held, a field is rejected that a target could read in another way than its rules do. */
async function ruledMembers(body: BodyChunks, { targets }: RequestPlan): Promise<BodyMembers> {
  const rules = targets.flatMap((target) => target.body?.rules ?? []);
  const members = await findMembers(body, new Set(rules.flatMap(namesOf)));
  assertUnambiguous(rules, members);
  return members;
}
