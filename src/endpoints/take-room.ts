import { UpstreamAtCapacityError } from '../errors/upstream-errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import type { Quote } from '../metering/estimate.ts';
import { RequestRoom, type RoomServices } from '../upstream/request-room.ts';
import type { RequestPlan } from './plan-request.ts';

/** Counted for the answer of a request that names no limit, until its usage is known. */
const ASSUMED_OUTPUT = 1000;

/**
 * Reserves room at one of the plan's targets. Undefined where they have no limits.
 *
 * @throws {UpstreamAtCapacityError} if all of them are full
 */
export function takeRoom(
  { caller, quote, targets, byokKey, conversation }: RequestPlan,
  request: ChatRequest,
  services: RoomServices,
): RequestRoom | undefined {
  if (!services.capacity.concerns(targets)) return undefined;
  const { account } = caller;
  const tokens = likelyTokens(quote, request);
  const room = new RequestRoom(services, { account, tokens, byokKey, conversation, canWait: false });
  const waitMs = room.reserve(targets);
  if (waitMs > 0) throw new UpstreamAtCapacityError(waitMs);
  return room;
}

function likelyTokens({ promptTokens, outputCap, n }: Quote, request: ChatRequest): number {
  const isNamed = request.maxTokens !== undefined || request.maxCompletionTokens !== undefined;
  return promptTokens + n * (isNamed ? outputCap : Math.min(outputCap, ASSUMED_OUTPUT));
}
