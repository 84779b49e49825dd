import type { Authenticator } from '../keys/authenticator.ts';
import type { Caller } from '../keys/caller.ts';
import { hashIdempotencyKey, idempotencyKeyOf } from '../keys/idempotency-key.ts';
import { limitFor, quoteRequest } from '../billing/admission.ts';
import type { ModelDiscovery } from '../upstream/model-discovery.ts';
import {
  AuthenticationError,
  CreditStoreUnavailableError,
  ModelNotAllowedError,
  RouterClosingError,
  UpstreamError,
  UpstreamTimeoutError,
} from '../errors/errors.ts';
import { asError } from '../platform/as-error.ts';
import { AnswerEditor } from '../http/answer-editor.ts';
import { type BodyMembers, findMembers, NO_MEMBERS } from '../http/body-members.ts';
import { assertUnambiguous, memberEdits, namesOf, withMovedLimit } from '../http/apply-body-rules.ts';
import type { BodyBuffer, BufferedBytes } from '../http/buffered-bytes.ts';
import { type ChatRequest, spliceRequest } from '../http/chat-request.ts';
import { DetachedRead, type DetachedReads } from '../http/detached-reads.ts';
import { type ClientConnection, ClientDisconnectedError, type Exchange } from '../http/exchange.ts';
import { concatChunks, type BodyChunks } from '../http/body-chunks.ts';
import { readChatRequest, type ReadRequest } from '../http/read-body.ts';
import { type ClientRouting, readClientRouting } from '../http/client-routing.ts';
import { type Answer, relay } from '../http/relay.ts';
import { RouterClosedError, type RelayEnd } from '../http/relay-end.ts';
import { adaptiveHoldOf } from '../billing/adaptive-hold.ts';
import type { Hold } from '../billing/hold.ts';
import type { Slot } from '../async/slot-list.ts';
import type { Ending, IdempotencyKey } from '../ledger/contract/ledger-store.ts';
import type { ActiveRequest } from '../observability/active-request.ts';
import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import type { Quote } from '../metering/estimate.ts';
import { UsageEventFilter } from '../metering/usage-event-filter.ts';
import { UsageMeter } from '../metering/usage-meter.ts';
import { selectModels, mergeForQuote, isAllowed } from '../catalog/model-selection.ts';
import { type AccountMarkups, withAccountMarkup } from '../catalog/account-markup.ts';
import { soldAsAsked } from '../catalog/asked-apart.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Model, Target } from '../catalog/model.ts';
import { withByokPrices } from '../catalog/byok.ts';
import type { PerTarget } from '../catalog/per-target.ts';
import { assertPriced } from '../catalog/resolve-server-tools.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import type { Settings } from '../options/resolve-options.ts';
import type { Outcome } from '../billing/charge-policy.ts';
import { KeyChangedError, type BillingService } from '../billing/billing-service.ts';
import type { Abortable, RunningAttempts } from '../upstream/attempt.ts';
import { targetsOf } from '../upstream/load-balancing.ts';
import type { StreamTermination } from '../upstream/stream-termination.ts';
import type { FailoverResult, Failover } from '../upstream/failover.ts';
import type { CircuitBreakers } from '../upstream/circuit-breaker.ts';
import { isReadToEnd } from '../upstream/abandoned-answers.ts';
import type { ProviderClient } from '../upstream/provider-client.ts';

export interface ChatCompletionServices {
  readonly authenticator: Pick<Authenticator, 'refresh' | 'invalidate'>;
  readonly settings: Settings;
  readonly catalog: Catalog;
  readonly markups: AccountMarkups;
  readonly discovery: Pick<ModelDiscovery, 'pending'>;
  readonly settlements: BillingService;
  readonly sender: ProviderClient;
  readonly health: CircuitBreakers;
  readonly failover: Failover;
  readonly endMarks: StreamTermination;
  /** What was learned of each target's tokens. */
  readonly corrections: PerTarget<EstimateCalibration>;
  /** The attempts that run now, for those who must end them. */
  readonly running: RunningAttempts;
  readonly drains: DetachedReads;
  readonly buffered: BufferedBytes;
  /** Set once `close()` was called: nothing new begins. */
  readonly closing: () => boolean;
  /** Told of what broke after the client's answer had begun. */
  readonly onError: (error: Error, requestId: string) => void;
}

/**
 * `POST /chat/completions`, the whole story: read, look up, hold, send until one answers, relay, settle.
 *
 * However it ends, a hold that was taken is settled or voided once, by the `finally` below.
 *
 * @throws a RouterError for what the client must be told; ClientDisconnectedError when there is nobody left to tell
 */
export async function chatCompletion(
  exchange: Exchange,
  client: ClientConnection,
  caller: Caller,
  services: ChatCompletionServices,
  live: ActiveRequest,
): Promise<void> {
  const { settings } = services;
  const { trace: observation } = live;
  const { account } = caller;
  const startedAt = performance.now();
  live.account = account;
  live.key = caller.key;

  const buffer = services.buffered.bodyOf(account, caller.key);
  let begun: Begun;
  try {
    begun = await begin({ exchange, client, caller, buffer, startedAt }, services, live);
  } finally {
    buffer.giveBack();
  }
  const { read, hold, model, targets, members, byokKey } = begun;
  const { request } = read;
  observation?.admitted(read.body);

  let outcome: Outcome = { ending: 'failed', target: targets[0], dispatched: false };
  let running: Slot<Abortable> | undefined;
  let drain: DetachedRead | undefined;
  let asksUsage = false;
  let attempts = 0;
  /** Which of them the target is in that is being asked; undefined while nothing was sent to it. */
  let attempt: number | undefined;
  const onError = (error: Error): void => {
    services.onError(error, exchange.id);
  };
  /** Sends the client's own bytes, spliced for this target, and waits for the head of its answer. */
  const send = async (target: Target): Promise<Answer> => {
    const { provider } = target;
    live.provider = provider.name;
    attempt = undefined;
    outcome = { ending: 'failed', target, dispatched: false };
    drain?.end();
    drain = new DetachedRead(services.drains, `${account} ${caller.key}`, () =>
      isReadToEnd(target, account, hold.terms.quote, services.corrections.of(target)),
    );
    try {
      const sent = await services.sender.send({
        target,
        account,
        clientHeaders: exchange.headers,
        body: bodyFor(target, { read, members, hold }, onError),
        lacksUsage: request.edits.includeUsage !== undefined,
        deniesUsage: request.includeUsage === false,
        byokKey: byokKey(provider.name),
        client,
        drain,
        startedAt,
        onAttempt: (attempted) => {
          attempt = attempts += 1;
          if (running) services.running.delete(running);
          running = services.running.add(attempted);
        },
        onSent: () => {
          outcome = { ...outcome, dispatched: true };
        },
        onRefused: () => {
          outcome = { ...outcome, dispatched: false };
        },
        onError,
        observation,
      });
      const { answer } = sent;
      ({ asksUsage } = sent);
      return answer;
    } catch (error) {
      if (!(error instanceof ClientDisconnectedError)) outcome = { ...outcome, dispatched: false };
      throw error;
    }
  };
  let delivery: FailoverResult | undefined;
  let end: RelayEnd | undefined;
  try {
    const onFailed = (error: Error): void => {
      outcome = { ...outcome, dispatched: false };
      observation?.attemptFailed(error);
    };
    const journey = { targets, client, account, send, drain: () => drain, onFailed };
    delivery = await services.failover.firstAnswer(journey);
    read.body = [];
    const { target, answer } = delivery;
    const { usage, reportedCost } = target.provider;
    const readsCost = target.reportsCost || target.price.reported;
    const meter = new UsageMeter(usage, request.n, readsCost ? reportedCost : undefined);
    hold.watch(target, meter);
    const brake = adaptiveHoldOf(hold, meter);
    const filter = asksUsage || brake ? new UsageEventFilter(meter, asksUsage) : undefined;
    const { onStreamError, heartbeatMs } = settings;
    const mustMarkEnd = services.endMarks.expectedOf(target, account);
    const { status } = answer;
    const cost = (): string => hold.costNow(target, { status, meter });
    const editor = editorOf(target, target.modelId === model.id ? request.model : target.modelId, cost);
    const parts = { meter, filter, editor, brake, drain, mustMarkEnd, onStreamError, heartbeatMs };
    const { told } = limitFor(target, request, hold.terms.quote, hold.outputLimit);
    const headers = {
      ...(told !== undefined && { 'x-ccr-max-tokens': String(told) }),
      ...model.deprecation?.headers,
    };
    end = await relay(exchange, client, withHeaders(answer, headers), parts);
    const { ending, leftBeforeOutput, firstByteAt, stalled } = end;
    services.endMarks.learn(target, meter, account);
    const delivered = end.withheld ? brake?.delivered : undefined;
    const relayed = { status, meter, leftBeforeOutput, delivered, firstByteAt, stalled };
    outcome = { ending, target, dispatched: true, answer: relayed };
    blame(end.error, target, attempt);
    if (end.error) services.onError(end.error, exchange.id);
    if (end.ending === 'upstream_cut' || end.ending === 'timeout') delivery.asked.broke(Date.now());
  } catch (error) {
    blame(error, outcome.target, attempt);
    outcome = { ...outcome, ending: endingOf(error) };
    // Whatever threw, and wherever: no paid call runs on for nobody.
    running?.value.abort(asError(error));
    throw error;
  } finally {
    delivery?.asked.over();
    if (running) services.running.delete(running);
    drain?.end();
    observation?.ended(outcome, startedAt, end);
    hold.settle(outcome);
  }
}

/** A request that was read and admitted. */
interface Begun extends Admitted {
  readonly read: ReadRequest;
}

interface Arrival {
  readonly exchange: Exchange;
  readonly client: ClientConnection;
  readonly caller: Caller;
  readonly buffer: BodyBuffer;
  readonly startedAt: number;
}

/** Reads a request and holds what it asks. */
async function begin(
  { exchange, client, caller, buffer, startedAt }: Arrival,
  services: ChatCompletionServices,
  live: ActiveRequest,
): Promise<Begun> {
  const { settings } = services;
  const name = idempotencyKeyOf(exchange.headers);
  const read = await readChatRequest(exchange, settings, buffer);
  const { request } = read;
  live.model = request.model;
  live.stream = request.stream;
  const control = readClientRouting(read.body, request.control, settings.clientRouting);
  // A process that has just begun may not know the models of its providers yet.
  if (!services.catalog.get(request.model)) await services.discovery.pending;
  const asked = caller.models
    ? await replan(caller, { exchange, read, control }, services)
    : planRequest(caller, request, control, services);
  live.trace?.modelResolved(asked.model, request.stream);
  const idempotencyKey =
    name === undefined ? undefined : await hashIdempotencyKey(name, concatChunks(read.body));
  client.throwIfDisconnected();
  if (services.closing()) throw new RouterClosingError();
  const terms = { exchange, read, control, idempotencyKey, startedAt };
  return { read, ...(await admit(asked, terms, services)) };
}

/** What a request asks, as its caller may and at the prices that it pays. */
interface RequestPlan {
  readonly caller: Caller;
  readonly model: Model;
  readonly quote: Quote;
  readonly targets: readonly [Target, ...Target[]];
  readonly byokKey: (provider: string) => string | undefined;
}

/** A key of ours that may not use a model is looked up anew: it may have been allowed it elsewhere. */
async function replan(
  caller: Caller,
  { exchange, read, control }: Omit<Admission, 'idempotencyKey' | 'startedAt'>,
  services: ChatCompletionServices,
): Promise<RequestPlan> {
  const { request } = read;
  try {
    return planRequest(caller, request, control, services);
  } catch (error) {
    if (!(error instanceof ModelNotAllowedError) || caller.externalKey) throw error;
  }
  const anew = await services.authenticator.refresh(exchange.headers, caller);
  return planRequest(anew, request, control, services);
}

function planRequest(
  caller: Caller,
  request: ChatRequest,
  control: ClientRouting | undefined,
  { catalog, markups, health }: ChatCompletionServices,
): RequestPlan {
  const { upstreamKeys } = caller;
  if (caller.models) assertAllowed(caller.models, [request.model, ...(control?.models ?? [])], catalog);
  const found = selectModels(catalog, request.model, control);
  const byokKey = (provider: string): string | undefined => upstreamKeys?.of(provider);
  const markup = markups.of(caller);
  const priced = (asked: Model): Model => {
    const marked = markup ? withAccountMarkup(asked, markup) : asked;
    return upstreamKeys ? withByokPrices(marked, (provider) => byokKey(provider) !== undefined) : marked;
  };
  const [first, ...fallbacks] = found;
  const models = soldAsAsked([priced(first), ...fallbacks.map(priced)], request);
  const model = mergeForQuote(models);
  assertPriced(request.features, model);
  const quote = quoteRequest(request, model);
  return { caller, model, quote, targets: targetsOf(models, quote, health, caller.account), byokKey };
}

/** Before they are asked for: who may not use a model doesn't learn whether there is one. */
function assertAllowed(allowed: ModelPatterns, ids: readonly string[], catalog: Catalog): void {
  for (const id of ids) {
    if (!isAllowed(allowed, id, catalog)) throw new ModelNotAllowedError(id, allowed.patterns);
  }
}

/** Holds what is asked, in one round trip; if the key was changed since it was looked up, as its caller may now. */
async function admit(
  first: RequestPlan,
  { exchange, read, control, idempotencyKey, startedAt }: Admission,
  services: ChatCompletionServices,
): Promise<Admitted> {
  const { request } = read;
  let asked = first;
  for (let changes = 0; changes < MAX_CHANGES; changes++) {
    const { caller, model, quote } = asked;
    const { stream } = request;
    const members = asked.targets.some(({ body }) => body)
      ? await ruledMembers(read.body, asked)
      : NO_MEMBERS;
    const requestId = exchange.id;
    const terms = { requestId, caller, model, quote, stream, idempotencyKey, exchange, startedAt };
    try {
      return { ...asked, members, hold: await services.settlements.admit(terms) };
    } catch (error) {
      // What the ledger has refused for its key's sake is not shown anything else meanwhile.
      if (error instanceof AuthenticationError) services.authenticator.invalidate(caller.account, caller.key);
      if (!(error instanceof KeyChangedError)) throw error;
    }
    const anew = await services.authenticator.refresh(exchange.headers, caller);
    asked = planRequest(anew, request, control, services);
  }
  throw new CreditStoreUnavailableError();
}

interface Admitted extends RequestPlan {
  readonly hold: Hold;
  /** Where the fields are that the targets have rules for. */
  readonly members: BodyMembers;
}

interface Admission {
  readonly exchange: Exchange;
  readonly read: ReadRequest;
  readonly control: ClientRouting | undefined;
  readonly idempotencyKey: IdempotencyKey | undefined;
  readonly startedAt: number;
}

/** Before money is held: a field that a target could read otherwise than its rules do is refused, whichever is asked first. */
async function ruledMembers(body: BodyChunks, { targets }: RequestPlan): Promise<BodyMembers> {
  const rules = targets.flatMap((target) => target.body?.rules ?? []);
  const members = await findMembers(body, new Set(rules.flatMap(namesOf)));
  assertUnambiguous(rules, members);
  return members;
}

/**
 * How the client's own bytes are written for a target, however often they are sent.
 *
 * @param onError - told why a value of the target's rules can't be had
 * @throws {UpstreamError} where one can't
 */
function bodyFor(
  target: Target,
  { read, members, hold }: Ruled,
  onError: (error: Error) => void,
): (includeUsage: boolean) => BodyChunks {
  const { body, model, modelId } = target;
  const request = body?.limit === undefined ? read.request : withMovedLimit(read.request, body.limit);
  const { edit: outputLimit } = limitFor(target, request, hold.terms.quote, hold.outputLimit);
  const edits = {
    ...(model !== request.model && { model }),
    ...(outputLimit && { outputLimit }),
  };
  if (!body) return (includeUsage) => spliceRequest(read.body, request, { ...edits, includeUsage });
  const { account, key } = hold.terms.caller;
  const ruled = memberEdits(body.rules, members, request.control, { account, key, model: modelId }, onError);
  return (includeUsage) => spliceRequest(read.body, request, { ...edits, members: ruled, includeUsage });
}

interface Ruled {
  readonly read: ReadRequest;
  readonly members: BodyMembers;
  readonly hold: Hold;
}

/** A key that is changed so often, while one request waits, is changed by something that went mad. */
const MAX_CHANGES = 5;

function withHeaders(answer: Answer, headers: Readonly<Record<string, string>>): Answer {
  return { ...answer, headers: { ...answer.headers, ...headers } };
}

/** @param model - as its client is told it, where it is told our names */
function editorOf({ answerPlan: plan }: Target, model: string, cost: () => string): AnswerEditor | undefined {
  return plan && new AnswerEditor({ plan, model, cost });
}

/** Notes on a provider's failure which provider it was, for `onError`. */
function blame(error: unknown, { provider, model }: Target, attempt: number | undefined): void {
  if (!(error instanceof UpstreamError || error instanceof UpstreamTimeoutError)) return;
  Object.assign(error, { provider: provider.name, model, ...(attempt !== undefined && { attempt }) });
}

function endingOf(error: unknown): Ending {
  if (error instanceof ClientDisconnectedError) return 'client_gone';
  if (error instanceof UpstreamTimeoutError) return 'timeout';
  if (error instanceof RouterClosedError) return 'closed';
  return 'upstream_error';
}
