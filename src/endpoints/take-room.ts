import type { Answer } from '../async/answer.ts';
import { UpstreamAtCapacityError } from '../errors/upstream-errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import { ClientDisconnectedError } from '../http/exchange.ts';
import type { Quote } from '../metering/estimate.ts';
import type { WaitOutcome } from '../observability/hooks.ts';
import type { WaitSettings } from '../options/resolve-wait.ts';
import { RequestRoom, type RoomServices } from '../upstream/request-room.ts';
import type { IncomingRequest, PlannedRequest } from './admit-request.ts';
import type { RequestPlan } from './plan-request.ts';

/** Counted for the answer of a request that names no limit, until its usage is known. */
const ASSUMED_OUTPUT = 1000;

/**
 * Reserves room at one of the plan's targets, after a wait in line where the model has one. Undefined where the targets have no limits.
 *
 * @throws {UpstreamAtCapacityError} if all of them are full
 * @throws as `WaitingLine.wait`
 */
export function takeRoom(
  { plan, read }: Pick<PlannedRequest, 'plan' | 'read'>,
  incoming: IncomingRequest,
  services: RoomServices,
): Answer<RequestRoom | undefined> {
  const { caller, model, quote, targets, conversation } = plan;
  if (!services.capacity.concerns(targets)) return undefined;
  const { wait } = model;
  const room = new RequestRoom(services, {
    account: caller.account,
    tokens: likelyTokens(quote, read.request),
    byokKeys: caller.upstreamKeys,
    conversation,
    canWait: wait !== undefined,
  });
  if (wait) return waitForRoom(room, wait, plan, incoming, services);
  const waitMs = room.reserve(targets);
  if (waitMs > 0) throw new UpstreamAtCapacityError(waitMs);
  return room;
}

/** Requests that don't have to wait pass the line, too: none overtakes one that waits for the same targets. */
function waitForRoom(
  room: RequestRoom,
  terms: WaitSettings,
  { caller, model, targets }: RequestPlan,
  { exchange, client, trace }: IncomingRequest,
  { waitingLine }: RoomServices,
): Answer<RequestRoom> {
  if (waitingLine.length === 0 && room.reserve(targets) === 0) return room;
  const since = performance.now();
  const over = (outcome: WaitOutcome): void => {
    const ms = performance.now() - since;
    exchange.waitHeaders = { 'x-ccr-waited-ms': String(Math.round(ms)) };
    trace?.waited(ms, outcome);
  };
  const waiting = waitingLine.wait({
    account: caller.account,
    model: model.wildcard ?? model.id,
    tokens: room.tokens,
    targets,
    terms,
    reserve: (awaited) => room.reserve(targets, awaited),
    onDisconnect: (listener) => {
      client.onDisconnect(listener);
    },
  });
  return waiting.then(
    () => {
      over('served');
      return room;
    },
    (error: unknown) => {
      over(outcomeOf(error));
      throw error;
    },
  );
}

function outcomeOf(error: unknown): WaitOutcome {
  if (error instanceof ClientDisconnectedError) return 'left';
  return error instanceof UpstreamAtCapacityError ? 'timed_out' : 'refused';
}

/** Of prompt and answer; those that limits of tokens count until the usage is known. */
export function likelyTokens({ promptTokens, outputCap, n }: Quote, request: ChatRequest): number {
  const isNamed = request.maxTokens !== undefined || request.maxCompletionTokens !== undefined;
  return promptTokens + n * (isNamed ? outputCap : Math.min(outputCap, ASSUMED_OUTPUT));
}
