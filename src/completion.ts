import type { Caller } from './accounts/authenticate.ts';
import { hashIdempotencyKey, idempotencyKeyOf } from './accounts/idempotency-key.ts';
import { quoteRequest } from './admission.ts';
import { asError, ModelNotFoundError, RouterClosingError, UpstreamTimeoutError } from './errors.ts';
import { spliceRequest } from './http/chat-request.ts';
import { Drain, type Drains } from './http/drains.ts';
import { type Client, ClientGone, type Exchange } from './http/exchange.ts';
import { readChatRequest } from './http/read-body.ts';
import { type Answer, Closed, relay } from './http/relay.ts';
import { growthOf } from './holds/growth.ts';
import type { Ending } from './ledger/ledger.ts';
import { UsageEventFilter } from './metering/usage-event-filter.ts';
import { UsageMeter } from './metering/usage-meter.ts';
import type { Catalog } from './models/catalog.ts';
import type { Settings } from './options.ts';
import type { Outcome } from './outcome.ts';
import type { Settlements } from './settlement.ts';
import type { Agents } from './upstream/agents.ts';
import { type Abortable, attempt, type RunningAttempts } from './upstream/attempt.ts';
import { upstreamRequest } from './upstream/upstream-request.ts';

export interface CompletionServices {
  readonly settings: Settings;
  readonly catalog: Catalog;
  readonly settlements: Settlements;
  readonly agents: Agents;
  /** The attempts that run now, for those who must end them. */
  readonly running: RunningAttempts;
  readonly drains: Drains;
  /** Set once `close()` was called: nothing new begins. */
  readonly closing: () => boolean;
  /** Told of what broke after the client's answer had begun. */
  readonly onError: (error: Error, requestId: string) => void;
}

/**
 * `POST /chat/completions`, the whole story: read, look up, hold, send, relay, settle.
 *
 * However it ends, a hold that was taken is settled or voided once, by the `finally` below.
 *
 * @throws a RouterError for what the client must be told; ClientGone when there is nobody left to tell
 */
export async function completion(
  exchange: Exchange,
  client: Client,
  caller: Caller,
  services: CompletionServices,
): Promise<void> {
  const { settings, catalog, settlements } = services;

  const name = idempotencyKeyOf(exchange.headers);
  const { body, request } = await readChatRequest(exchange, settings);
  const model = catalog.get(request.model);
  if (!model) throw new ModelNotFoundError(request.model);
  // The first target; the others are for failover, and are part of what the hold covers.
  const [target] = model.targets;
  const quote = quoteRequest(request, model);
  const idempotencyKey = name === undefined ? undefined : await hashIdempotencyKey(name, body);
  client.assertThere();
  if (services.closing()) throw new RouterClosingError();
  const { stream } = request;
  const hold = await settlements.admit({
    requestId: exchange.id,
    caller,
    model,
    quote,
    stream,
    idempotencyKey,
  });

  let outcome: Outcome = { ending: 'failed', target, dispatched: false };
  let running: Abortable | undefined;
  const { provider } = target;
  const drain = provider.onClientGone === 'drain' ? new Drain(services.drains) : undefined;
  try {
    const addsUsage = provider.streamUsage === 'option' && request.edits.includeUsage !== undefined;
    const bytes = spliceRequest(body, request, {
      ...(target.model !== request.model && { model: target.model }),
      includeUsage: addsUsage,
      ...(hold.outputLimit !== undefined && {
        outputLimit: { field: provider.outputLimitField, tokens: hold.outputLimit },
      }),
    });
    const upstream = await upstreamRequest(target, exchange.headers, bytes, services.agents);
    const answer = await attempt(upstream, provider.timeouts, client, drain, (attempted) => {
      if (running) services.running.delete(running);
      running = attempted;
      services.running.add(attempted);
      outcome = { ending: 'failed', target, dispatched: true };
    });

    const meter = new UsageMeter();
    hold.watch(target, meter);
    const brake = growthOf(hold, meter);
    const filter = addsUsage || brake ? new UsageEventFilter(meter, addsUsage) : undefined;
    const parts = { meter, filter, brake, drain };
    const end = await relay(exchange, client, withHeaders(answer, hold.headers), parts);
    const { ending, leftBeforeOutput } = end;
    const delivered = end.withheld ? brake?.delivered : undefined;
    const relayed = { status: answer.status, meter, leftBeforeOutput, delivered };
    outcome = { ending, target, dispatched: true, answer: relayed };
    if (end.error) services.onError(end.error, exchange.id);
  } catch (error) {
    outcome = { ...outcome, ending: endingOf(error) };
    // Whatever threw, and wherever: no paid call runs on for nobody.
    running?.abort(asError(error));
    throw error;
  } finally {
    if (running) services.running.delete(running);
    drain?.end();
    hold.settle(outcome);
  }
}

function withHeaders(answer: Answer, headers: Readonly<Record<string, string>>): Answer {
  return { ...answer, headers: { ...answer.headers, ...headers } };
}

function endingOf(error: unknown): Ending {
  if (error instanceof ClientGone) return 'client_gone';
  if (error instanceof UpstreamTimeoutError) return 'timeout';
  if (error instanceof Closed) return 'closed';
  return 'upstream_error';
}
