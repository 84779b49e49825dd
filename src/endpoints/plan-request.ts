import type { IncomingHttpHeaders } from 'node:http';

import { quoteRequest } from '../billing/admission.ts';
import {
  type AccountMarkups,
  withAccountMarkup,
  withByokPrices,
  keepPricedTargets,
} from '../catalog/request-prices.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { TargetDemands } from '../catalog/matching-targets.ts';
import type { Model, Target } from '../catalog/model.ts';
import {
  type AskedModels,
  askedModels,
  isAllowed,
  mergeForQuote,
  selectModels,
} from '../catalog/model-selection.ts';
import { assertPriced } from '../catalog/server-tools.ts';
import { ModelNotAllowedError } from '../errors/model-errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import type { ClientRouting } from '../http/client-routing.ts';
import type { Caller } from '../keys/caller.ts';
import type { Quote } from '../metering/estimate.ts';
import type { MarkupTerms } from '../metering/markup.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import type { CircuitBreakers } from '../upstream/circuit-breaker.ts';
import type { Conversation, ConversationMemory } from '../upstream/conversations.ts';
import { targetsInOrder } from '../upstream/load-balancing.ts';
import type { ByokKeys } from '../upstream/request-room.ts';
import { conversationOf } from './conversation-of.ts';

/** Which models a request asks for. */
export interface ModelRequest {
  /** The ID that the client asked for, or that the app's `route` named. */
  readonly id: string;
  readonly request: ChatRequest;
  readonly headers: IncomingHttpHeaders;
  /** The client's choice of models and providers. */
  readonly routing: ClientRouting | undefined;
  /** The client may choose among providers: suffixes of IDs sort targets. */
  readonly readsSuffixes: boolean;
  /** The parameters that targets must take, if the client says so. */
  readonly parameters: ReadonlySet<string> | undefined;
  /** The same for the whole request, even after a reload. */
  readonly catalog: Catalog;
}

export interface PlanServices {
  readonly markups: AccountMarkups;
  readonly breakers: CircuitBreakers;
  readonly conversations: ConversationMemory;
}

/** The targets of a request in order, and what it may cost at its caller's prices. */
export interface RequestPlan {
  readonly caller: Caller;
  readonly model: Model;
  readonly quote: Quote;
  readonly targets: readonly [Target, ...Target[]];
  /** Undefined if the model isn't sticky, or the request says of no conversation that it belongs to it. */
  readonly conversation: Conversation | undefined;
}

/** @throws {ModelNotAllowedError} before the model is looked up: a caller doesn't learn whether a forbidden model exists
 * @throws {ModelNotFoundError} or another RouterError that names what can't be served
 */
export function planRequest(
  caller: Caller,
  { id, request, headers, routing, readsSuffixes, parameters, catalog }: ModelRequest,
  { markups, breakers, conversations }: PlanServices,
): RequestPlan {
  const asked = askedModels(id, routing?.models, catalog, readsSuffixes);
  if (caller.models) assertAllowed(caller.models, asked, catalog);
  const priced = pricedFor(caller, markups);
  const demands = demandsOf(caller, routing, parameters, request);
  const selected = selectModels(catalog, asked, routing, { allowed: caller.models, priced, demands });
  const models = keepPricedTargets(selected, request);
  const model = mergeForQuote(models);
  assertPriced(request.features, model);
  const quote = quoteRequest(request, model);
  const conversation =
    models[0].sticky &&
    conversationOf(models, { caller, headers, fields: request.conversation }, conversations);
  const targets = targetsInOrder(models, { quote, breakers, account: caller.account, conversation });
  return { caller, model, quote, targets, conversation };
}

/** A model at a caller's prices. */
export function pricedFor(caller: Caller, markups: AccountMarkups): (model: Model) => Model {
  const { upstreamKeys } = caller;
  const markup = markups.of(caller);
  return markup || upstreamKeys ? pricedAt(markup, upstreamKeys) : atListPrices;
}

function pricedAt(
  markup: MarkupTerms | undefined,
  upstreamKeys: ByokKeys | undefined,
): (model: Model) => Model {
  return (model) => atPrices(model, markup, upstreamKeys);
}

function atListPrices(model: Model): Model {
  return model;
}

function atPrices(model: Model, markup: MarkupTerms | undefined, upstreamKeys: ByokKeys | undefined): Model {
  const marked = markup ? withAccountMarkup(model, markup) : model;
  return upstreamKeys
    ? withByokPrices(marked, (provider) => upstreamKeys.of(provider) !== undefined)
    : marked;
}

/** What the key, its account and the request require of targets. A request adds to what its key requires. */
function demandsOf(
  { require }: Caller,
  routing: ClientRouting | undefined,
  parameters: ReadonlySet<string> | undefined,
  request: ChatRequest,
): TargetDemands | undefined {
  if (!require && !routing) return undefined;
  return {
    require: [...(require ?? []), ...(routing?.require ?? [])],
    maxPrice: routing?.maxPrice,
    parameters,
    request,
    namesProviders: routing?.choosesProviders ?? false,
  };
}

function assertAllowed(allowed: ModelPatterns, asked: AskedModels, catalog: Catalog): void {
  for (const { id, name } of asked) {
    if (isAllowed(allowed, id, catalog)) continue;
    const { within } = allowed;
    const isOfAccount = within !== undefined && !isAllowed(within, id, catalog);
    throw new ModelNotAllowedError(name, isOfAccount ? within.patterns : allowed.patterns);
  }
}
