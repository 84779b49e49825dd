import type { IncomingHttpHeaders } from 'node:http';

import { type Answer, andThen } from '../async/answer.ts';
import { RouteUnavailableError } from '../errors/hook-errors.ts';
import { byteLength } from '../http/body-chunks.ts';
import type { ReadRequest } from '../http/read-body.ts';
import { DEFAULT_TOKEN_BUDGETS, promptTokensEstimate } from '../metering/estimate.ts';
import type { HookCaller } from '../options/request-hooks.ts';
import type { RouteSettings } from '../options/resolve-request-hooks.ts';
import { showValue } from '../platform/show-value.ts';
import { callHook, type HookContext } from './hook-call.ts';

/** Headers that hold keys or cookies. */
const SECRET_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
  'x-api-key',
  'api-key',
]);

const MAX_MODEL_LENGTH = 256;

/**
 * The ID of the model that serves a request: that which the app's `route` names, else that of the client.
 *
 * @throws {RouterError} for the client
 * @throws {ClientDisconnectedError} if the client leaves first
 */
export function routeRequest(
  route: RouteSettings,
  { body, request }: ReadRequest,
  caller: HookCaller,
  context: HookContext,
): Answer<string> {
  const { exchange } = context;
  const { model, stream, size } = request;
  const run = (signal: AbortSignal): unknown =>
    route.run(
      {
        requestId: exchange.id,
        model,
        stream,
        bytes: byteLength(body),
        promptTokens: promptTokensEstimate(size, DEFAULT_TOKEN_BUDGETS),
        headers: withoutSecrets(exchange.headers),
        signal,
      },
      caller,
    );
  const failure = (cause: Error): RouteUnavailableError => new RouteUnavailableError(cause);
  const named = callHook({ hook: 'route', settings: route, run, judge: modelNamed, failure }, context);
  return andThen(named, (id) => id ?? model);
}

function modelNamed(answer: unknown): string | undefined {
  if (answer === undefined || answer === null) return undefined;
  if (typeof answer === 'string' && answer !== '' && answer.length <= MAX_MODEL_LENGTH) return answer;
  throw new TypeError(
    `route must return the ID of a model, of 1 to ${MAX_MODEL_LENGTH} characters, or undefined, got ${showValue(answer)}`,
  );
}

function withoutSecrets(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !SECRET_HEADERS.has(name)));
}
