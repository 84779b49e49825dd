import type { IncomingHttpHeaders } from 'node:http';

import { type Answer, andThen } from '../async/answer.ts';
import type { BodyBuffer, ReadRequest } from '../http/read-body.ts';
import { countedAs } from '../keys/dimensions.ts';
import type { Dimensions } from '../ledger/contract/ledger-store.ts';
import type { HookCaller } from '../options/request-hooks.ts';
import type { RunningAttempts } from '../upstream/attempt.ts';
import {
  type AdmitServices,
  type AdmittedRequest,
  type IncomingRequest,
  planFor,
  type PlannedRequest,
} from './admit-request.ts';
import { guardRequest } from './guard-request.ts';
import { hookCaller, type HookContext } from './hook-call.ts';
import { ParallelGuard } from './parallel-guard.ts';
import { routeRequest } from './route-request.ts';

export interface RequestHookServices extends AdmitServices {
  readonly running: RunningAttempts;
  readonly onError: (error: Error, requestId: string) => void;
}

/**
 * The app's `route` and `guard` for a request before its hold; undefined if there is none.
 *
 * @param said - what the request says of whom and what it is for
 * @param buffer - counts the bytes of its body
 */
export function requestHooks(
  request: IncomingRequest,
  said: Dimensions | undefined,
  buffer: BodyBuffer,
  services: RequestHookServices,
): RequestHooks | undefined {
  const { route, guard } = services.settings;
  return route || (guard && !guard.parallel) ? new RequestHooks(request, said, buffer, services) : undefined;
}

class RequestHooks {
  readonly #headers: IncomingHttpHeaders;
  readonly #buffer: BodyBuffer;
  readonly #services: RequestHookServices;
  readonly #context: HookContext;
  readonly #caller: HookCaller;

  constructor(
    request: IncomingRequest,
    said: Dimensions | undefined,
    buffer: BodyBuffer,
    services: RequestHookServices,
  ) {
    const { exchange, caller } = request;
    this.#headers = exchange.headers;
    this.#buffer = buffer;
    this.#services = services;
    this.#context = contextOf(request, services);
    this.#caller = hookCaller(caller, countedAs(caller, said, services.settings.dimensions));
  }

  /** The ID of the model that serves the request. @throws as `routeRequest` */
  modelOf(read: ReadRequest): Answer<string> {
    const { route } = this.#services.settings;
    return route ? routeRequest(route, read, this.#caller, this.#context) : read.request.model;
  }

  /** The request as it passed the guard: planned again if the guard replaced its messages. @throws as `guardRequest` */
  checked(planned: PlannedRequest): Answer<PlannedRequest> {
    const { settings } = this.#services;
    const { guard } = settings;
    if (!guard || guard.parallel) return planned;
    const { read, plan } = planned;
    const request = { read, caller: this.#caller, model: plan.model.id, buffer: this.#buffer };
    const checked = guardRequest(request, guard, settings, this.#context);
    return andThen(checked, (replaced) => {
      if (!replaced) return planned;
      const modelRequest = { ...planned.modelRequest, request: replaced.request };
      const replanned = planFor(plan.caller, this.#headers, modelRequest, this.#services);
      return andThen(replanned, (next) => ({ read: replaced, modelRequest, plan: next }));
    });
  }
}

/** Starts the app's guard if it runs beside the request to the provider. */
export function guardBeside(
  { read, model, hold }: AdmittedRequest,
  incoming: IncomingRequest,
  services: RequestHookServices,
): ParallelGuard | undefined {
  const { settings } = services;
  const { guard } = settings;
  if (!guard?.parallel) return undefined;
  const { terms } = hold;
  const request = { read, model: model.id, caller: hookCaller(terms.caller, terms) };
  return new ParallelGuard(request, guard, settings, contextOf(incoming, services));
}

function contextOf(
  { exchange, client, trace }: IncomingRequest,
  { running, onError }: RequestHookServices,
): HookContext {
  return {
    exchange,
    client,
    running,
    trace,
    onError: (error) => {
      onError(error, exchange.id);
    },
  };
}
