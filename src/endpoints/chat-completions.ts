import { type Answer, isLater } from '../async/answer.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { RouterClosingError } from '../errors/router-error.ts';
import { freeChunks } from '../http/body-chunks.ts';
import { type BufferedBytes, readChatRequest } from '../http/read-body.ts';
import { readClientRouting } from '../http/client-routing.ts';
import { parametersOf } from '../http/request-parameters.ts';
import type { DetachedReads } from '../http/detached-reads.ts';
import type { ClientConnection, Exchange } from '../http/exchange.ts';
import type { Caller } from '../keys/caller.ts';
import { hashIdempotencyKey, idempotencyKeyOf } from '../keys/idempotency-key.ts';
import type { EstimateCalibration } from '../metering/estimate-calibration.ts';
import type { PerTarget } from '../catalog/model.ts';
import type { ActiveRequest } from '../observability/active-request.ts';
import type { Failover, FailoverResult } from '../upstream/failover.ts';
import type { ModelDiscovery } from '../upstream/model-discovery.ts';
import type { RecentErrors } from '../upstream/recent-errors.ts';
import type { RunningAttempts } from '../upstream/attempt.ts';
import {
  type AdmitServices,
  type AdmittedRequest,
  type IncomingRequest,
  admitRequest,
  planFor,
} from './admit-request.ts';
import { ClientBody } from './client-body.ts';
import type { ParallelGuard } from './parallel-guard.ts';
import { guardBeside, requestHooks } from './request-hooks.ts';
import { saidDimensions } from './said-dimensions.ts';
import { likelyTokens, takeRoom } from './take-room.ts';
import { relayAnswer, relayedAnswer, type RelayServices } from './relay-answer.ts';
import { RequestProgress } from './request-progress.ts';

export interface ChatCompletionServices extends AdmitServices, RelayServices {
  readonly catalog: Catalog;
  readonly discovery: Pick<ModelDiscovery, 'pending'>;
  readonly failover: Failover;
  /** Learned ratios of real to estimated tokens. */
  readonly calibrations: PerTarget<EstimateCalibration>;
  /** What operators see of providers' errors. */
  readonly recentErrors: RecentErrors;
  /** The running attempts, so that `close()` can abort them. */
  readonly running: RunningAttempts;
  readonly detachedReads: DetachedReads;
  readonly buffered: BufferedBytes;
  /** True once `close()` was called: no new request begins. */
  readonly closing: () => boolean;
  /** Called with errors that happen after the client's answer began. */
  readonly onError: (error: Error, requestId: string) => void;
}

/** `POST /chat/completions`: read, plan, reserve, hold, send until a target answers, relay, settle. The app's hooks may name the model
 * before the plan, and check the request before the hold, or beside the call.
 *
 * However the request ends, the `finally` below settles or voids its hold once.
 * @throws {RouterError} to send to the client
 * @throws {ClientDisconnectedError} if the client has left
 */
export async function chatCompletion(
  exchange: Exchange,
  client: ClientConnection,
  caller: Caller,
  services: ChatCompletionServices,
  active: ActiveRequest,
): Promise<void> {
  const startedAt = performance.now();
  const { account, key } = caller;
  active.account = account;
  active.key = key;
  const { trace } = active;
  const incoming = { exchange, client, caller, startedAt, trace };

  const admitted = await admit(incoming, services, active);
  const { read, hold, room } = admitted;
  trace?.admitted(read.body);

  const progress = new RequestProgress(admitted, client, services, active);
  let guard: ParallelGuard | undefined;
  try {
    guard = guardBeside(admitted, incoming, services);
    let result: FailoverResult | undefined = await send(admitted, incoming, progress, services);
    progress.answered(result);
    if (result.failure) services.onError(result.failure, exchange.id);
    if (read.isExclusive && !guard && progress.isWritten) freeChunks(read.body);
    read.releaseBody();
    if (guard) await guard.allows(result.answer);
    const { detached } = progress;
    const relaying = relayAnswer(result, { exchange, client, detached }, admitted, services);
    read.release();
    // V8 keeps what the variables of a waiting function hold.
    result = undefined;
    const end = isLater(relaying.end) ? await relaying.end : relaying.end;
    const failure = progress.relayed(end, relayedAnswer(relaying, end, hold, services));
    if (failure) services.onError(failure, exchange.id);
  } catch (error) {
    progress.failed(error);
    throw error;
  } finally {
    guard?.stop();
    const outcome = progress.close();
    room?.end(outcome.answer?.meter.usage);
    hold.settle(outcome);
  }
}

/** Reads a request, plans its targets and its maximum cost, and holds that. */
async function admit(
  incoming: IncomingRequest,
  services: ChatCompletionServices,
  active: ActiveRequest,
): Promise<AdmittedRequest> {
  const { exchange, client, caller, startedAt, trace } = incoming;
  const { settings } = services;
  const buffer = services.buffered.reserveFor(caller.account, caller.key);
  try {
    const givenKey = idempotencyKeyOf(exchange.headers);
    const reading = readChatRequest(exchange, settings, buffer);
    const read = isLater(reading) ? await reading : reading;
    const { request } = read;
    active.model = request.model;
    active.stream = request.stream;
    const said = saidDimensions(exchange.headers, request, settings.dimensions);
    const hooks = requestHooks(incoming, said, buffer, services);
    const id = hooks ? await hooks.modelOf(read) : request.model;
    active.model = id;
    const fields = request.routingFields;
    const routing =
      fields.length > 0 ? readClientRouting(read.body, fields, settings.clientRouting) : undefined;
    const parameters = routing?.requireParameters ? await parametersOf(read.body) : undefined;
    const catalog = catalogFor(id, services);
    const { headers } = exchange;
    const modelRequest = {
      id,
      request,
      headers,
      routing,
      readsSuffixes: settings.clientRouting.has('provider'),
      parameters,
      catalog: isLater(catalog) ? await catalog : catalog,
    };
    const planning = planFor(caller, headers, modelRequest, services);
    const planned = { read, modelRequest, plan: isLater(planning) ? await planning : planning };
    trace?.modelResolved(planned.plan.model, request.stream);
    const idempotencyKey = givenKey === undefined ? undefined : await hashIdempotencyKey(givenKey, read.body);
    const checked = hooks ? await hooks.checked(planned) : planned;
    client.throwIfDisconnected();
    if (services.closing()) throw new RouterClosingError();
    const taking = takeRoom(checked, incoming, services);
    const room = isLater(taking) ? await taking : taking;
    const admission = { exchange, idempotencyKey, said, startedAt, room };
    try {
      const admitting = admitRequest(checked, admission, services);
      return isLater(admitting) ? await admitting : admitting;
    } catch (error) {
      room?.end();
      throw error;
    }
  } finally {
    buffer.release();
  }
}

/** Sends the client's request to its targets, until one has an answer for the client. */
function send(
  admitted: AdmittedRequest,
  { exchange, client, caller, startedAt, trace }: IncomingRequest,
  progress: RequestProgress,
  { failover, onError }: ChatCompletionServices,
): Promise<FailoverResult> {
  const { read, hold, targets, conversation, room } = admitted;
  const { request: asked } = read;
  const request = {
    requestId: exchange.id,
    account: caller.account,
    client,
    clientHeaders: exchange.headers,
    stream: asked.stream,
    body: new ClientBody(admitted, onError),
    lacksUsage: asked.edits.includeUsage !== undefined,
    deniesUsage: asked.includeUsage === false,
    byokKeys: caller.upstreamKeys,
    conversation,
    room,
    tokens: room?.tokens ?? likelyTokens(hold.terms.quote, asked),
    startedAt,
    onError,
    trace,
  };
  return failover.firstAnswer({ targets, request, progress });
}

/** The catalog for one request. Just after start, waits for the models that providers list. */
export function catalogFor(
  model: string,
  services: Pick<ChatCompletionServices, 'catalog' | 'discovery'>,
): Answer<Catalog> {
  const { catalog, discovery } = services;
  if (catalog.get(model) || !discovery.pending) return catalog;
  return discovery.pending.then(() => services.catalog);
}
