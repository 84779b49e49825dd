import { requestTime } from '../ledger/contract/request-ids.ts';
import type { RequestTrace } from './request-trace.ts';

/**
 * A request from its arrival to its end, and what is known of it so far: one object, kept anyway, whose fields
 * are filled in on the way for operators who look.
 */
export class ActiveRequest {
  readonly id: string;
  /** Undefined where no hook wants to know of it. */
  readonly trace: RequestTrace | undefined;
  /** Resolves when it is over. */
  handled: Promise<void>;
  /** From here on: set where it is a completion. */
  account: string | undefined;
  key: string | undefined;
  /** Set with `stream` once the body was read. */
  model: string | undefined;
  stream: boolean | undefined;
  /** Who was asked last. */
  provider: string | undefined;

  constructor(id: string, observation: RequestTrace | undefined) {
    this.id = id;
    this.trace = observation;
    this.handled = NOT_HANDLED;
    this.account = undefined;
    this.key = undefined;
    this.model = undefined;
    this.stream = undefined;
    this.provider = undefined;
  }
}

/** Until it is handed to the routes, which is at once. */
const NOT_HANDLED = Promise.resolve();

/** A completion that is not over, as its operator sees it. */
export interface RunningRequest {
  /** `x-request-id` of its answer, and its id in the journal. */
  readonly id: string;
  readonly account: string;
  /** Id of the API key. */
  readonly key: string;
  readonly startedAt: Date;
  /** As the client asked for it; undefined while the body is on its way. */
  readonly model?: string;
  /** Whether the answer is to be a stream; undefined while the body is on its way. */
  readonly streaming?: boolean;
  /** Who was asked last; undefined before anybody is. */
  readonly provider?: string;
}

/** The completions among live requests, oldest first: their ids begin with the time. */
export function runningRequests(live: readonly ActiveRequest[]): RunningRequest[] {
  const running: RunningRequest[] = [];
  for (const { id, account, key, model, stream, provider } of live) {
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
