import type { Slot } from '../async/slot-list.ts';
import { requestTime } from '../ledger/contract/request-ids.ts';
import type { RequestTrace } from './request-trace.ts';

/** A request from its arrival to the end of its response, with what is known of it so far. Its fields are
 * filled in on the way, and shown to operators.
 */
export class ActiveRequest {
  readonly id: string;
  /** Undefined if no hook needs it. */
  readonly trace: RequestTrace | undefined;
  /** Among the router's requests. */
  slot: Slot<ActiveRequest> | undefined;
  /** Resolves when the request is over. */
  handled: Promise<void>;
  /** Set, like the fields below, for completions only. */
  account: string | undefined;
  key: string | undefined;
  /** Set once the body was read, as is `stream`. */
  model: string | undefined;
  stream: boolean | undefined;
  /** The provider tried last. */
  provider: string | undefined;

  constructor(id: string, trace: RequestTrace | undefined) {
    this.id = id;
    this.trace = trace;
    this.slot = undefined;
    this.handled = NOT_HANDLED;
    this.account = undefined;
    this.key = undefined;
    this.model = undefined;
    this.stream = undefined;
    this.provider = undefined;
  }
}

/** Initial value, replaced at once by the result of the routes. */
const NOT_HANDLED = Promise.resolve();

/** A running completion, for operators. */
export interface RunningRequest {
  /** `x-request-id` of the response, and the id in the journal. */
  readonly id: string;
  readonly account: string;
  /** Id of the API key. */
  readonly key: string;
  readonly startedAt: Date;
  /** The requested model; undefined while the body is being received. */
  readonly model?: string;
  /** Whether a stream was requested; undefined while the body is being received. */
  readonly streaming?: boolean;
  /** The provider tried last; undefined before the first attempt. */
  readonly provider?: string;
}

/** The completions among active requests, oldest first: ids begin with the time. */
export function runningRequests(active: readonly ActiveRequest[]): RunningRequest[] {
  const running: RunningRequest[] = [];
  for (const { id, account, key, model, stream, provider } of active) {
    if (account === undefined || key === undefined) continue;
    running.push({
      id,
      account,
      key,
      startedAt: new Date(requestTime(id)),
      ...(model !== undefined && { model }),
      ...(stream !== undefined && { streaming: stream }),
      ...(provider !== undefined && { provider }),
    });
  }
  return running.sort((one, other) => (one.id < other.id ? -1 : 1));
}
