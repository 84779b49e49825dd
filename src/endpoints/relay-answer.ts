import type { Answer } from '../async/answer.ts';
import { AdaptiveHold } from '../billing/adaptive-hold.ts';
import { announcedLimit } from '../billing/admission.ts';
import type { RelayedAnswer } from '../billing/charge-policy.ts';
import type { Hold } from '../billing/hold.ts';
import { AnswerEditor } from '../http/answer-editor.ts';
import type { Model, PerTarget, Target } from '../catalog/model.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import type { ClientConnection, Exchange } from '../http/exchange.ts';
import { type ProviderAnswer, relay } from '../http/relay.ts';
import type { RelayEnd } from '../http/relay-end.ts';
import { UsageEventFilter } from '../metering/usage-event-filter.ts';
import { UsageMeter } from '../metering/usage-meter.ts';
import type { EventTemplates } from '../metering/event-template.ts';
import type { Settings } from '../options/resolve-options.ts';
import type { FailoverResult } from '../upstream/failover.ts';
import type { StreamTermination } from '../upstream/stream-traits.ts';
import type { AdmittedRequest } from './admit-request.ts';

export interface RelayServices {
  readonly settings: Settings;
  readonly termination: StreamTermination;
  readonly eventTemplates: PerTarget<EventTemplates>;
}

/** The client side of an answer. */
export interface AnswerReceiver {
  readonly exchange: Exchange;
  readonly client: ClientConnection;
  readonly detached: DetachedRead | undefined;
}

/** An answer on its way to the client. */
export interface RelayingAnswer {
  readonly target: Target;
  readonly status: number;
  /** How its relay ended. */
  readonly end: Answer<RelayEnd>;
  readonly meter: UsageMeter;
  readonly gate: AdaptiveHold | undefined;
}

/** Relays an answer to the client: metered, within its hold, with its target's edits. */
export function relayAnswer(
  { target, answer, asksUsage }: FailoverResult,
  { exchange, client, detached }: AnswerReceiver,
  { read, model, hold }: AdmittedRequest,
  { settings, termination, eventTemplates }: RelayServices,
): RelayingAnswer {
  const { request } = read;
  const { usage, reportedCost } = target.provider;
  const { account } = hold.terms.caller;
  const readsCost = target.reportsCost || target.price.reported;
  const meter = new UsageMeter(
    usage,
    request.n,
    readsCost ? reportedCost : undefined,
    eventTemplates.of(target),
  );
  hold.watch(target, meter);
  const gate = hold.grows ? new AdaptiveHold(hold, meter) : undefined;
  const filter = asksUsage || gate ? new UsageEventFilter(meter, asksUsage) : undefined;
  const shownModel = target.modelId === model.id ? request.model : target.modelId;
  const editor = editorFor(target, shownModel, hold, { status: answer.status, meter });
  const requiresTermination = termination.expectedOf(target, account);
  const announced = announcedLimit(target, request, hold.terms.quote, hold.outputLimit);
  const options = {
    meter,
    filter,
    editor,
    gate,
    detached,
    requiresTermination,
    // JSON may call itself a stream, in answer to a request for none.
    heartbeatMs: request.stream ? settings.heartbeatMs : undefined,
  };
  const end = relay(exchange, client, withNotices(answer, announced, model), options);
  return { target, status: answer.status, end, meter, gate };
}

/** What the charge of an answer depends on, once its relay has ended. */
export function relayedAnswer(
  { target, status, meter, gate }: RelayingAnswer,
  { firstByteAt, stalled, withheld }: RelayEnd,
  { terms }: Hold,
  { termination }: RelayServices,
): RelayedAnswer {
  termination.learn(target, meter, terms.caller.account);
  const delivered = withheld ? gate?.delivered : undefined;
  return { status, meter, delivered, firstByteAt, stalled };
}

function editorFor(
  target: Target,
  model: string,
  hold: Hold,
  answer: Pick<RelayedAnswer, 'status' | 'meter'>,
): AnswerEditor | undefined {
  const plan = target.answerPlan;
  return plan && new AnswerEditor({ plan, model, cost: () => hold.costNow(target, answer) });
}

/** The answer, with headers that announce an output limit and that its model is deprecated. */
function withNotices(
  answer: ProviderAnswer,
  outputLimit: number | undefined,
  { deprecation }: Model,
): ProviderAnswer {
  if (outputLimit === undefined && !deprecation) return answer;
  const limit = outputLimit !== undefined && { 'x-ccr-max-tokens': String(outputLimit) };
  return { ...answer, headers: { ...answer.headers, ...limit, ...deprecation?.headers } };
}
