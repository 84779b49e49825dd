import { unlessAborted } from '../async/unless-aborted.ts';
import { type FixedHold, type FixedHolds, NOTHING_CONSUMED } from '../billing/fixed-hold.ts';
import { checkName, type HoldUsage, isName, parseAmount, parseConsumption } from '../billing/holds.ts';
import { refusalOf } from '../billing/refusal.ts';
import { isAllowed } from '../catalog/model-selection.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import { AuthenticationError } from '../errors/key-errors.ts';
import { ModelNotAllowedError } from '../errors/model-errors.ts';
import { InvalidRequestError } from '../errors/request-errors.ts';
import { RouterClosingError } from '../errors/router-error.ts';
import { type ClientConnection, ClientDisconnectedError, type Exchange } from '../http/exchange.ts';
import { type BufferedBytes, readBytes, type SizeLimits } from '../http/read-body.ts';
import { isResponse, lazyRequest, sendWebResponse, webRequest } from '../http/web-message.ts';
import type { Authenticator } from '../keys/authenticator.ts';
import type { Caller } from '../keys/caller.ts';
import { countedAs } from '../keys/dimensions.ts';
import { hashIdempotencyKey, idempotencyKeyOf } from '../keys/idempotency-key.ts';
import type { Ending, IdempotencyKey } from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import type { ActiveRequest } from '../observability/active-request.ts';
import { optionsObject } from '../platform/options-object.ts';
import { showValue } from '../platform/show-value.ts';
import type { RunningAttempts } from '../upstream/attempt.ts';
import type { Settings } from '../options/resolve-options.ts';
import { rateLimitHeaders } from './admit-request.ts';
import { saidDimensions } from './said-dimensions.ts';

/** Answers a request of an authenticated caller, whose credits are held meanwhile. */
export type MeteredHandler = (request: Request, call: MeteredCall) => Response | Promise<Response>;

/** Whose request it is. */
export interface MeteredCaller {
  readonly account: string;
  /** The key's id, or your app's label for it. */
  readonly key: string;
}

/** What a metered handler is given besides the request. */
export interface MeteredCall {
  /** `x-request-id` of the response, and the id in the journal. */
  readonly requestId: string;
  readonly caller: MeteredCaller;
  readonly model: string;
  /** What is held, in USD. */
  readonly held: string;
  /**
   * Sets what the call costs in USD, in place of the whole price; the last time counts. Posted when the response is over,
   * also if the handler throws afterwards.
   *
   * @throws {TypeError} naming the invalid argument
   * @throws {Error} if the response is over, or the router was closed: nothing more is charged
   */
  readonly charge: (amount: string, consumed?: HoldUsage) => void;
  /** Aborted when the client disconnects. What it had charged until then, or the whole price of a 2xx, is charged. */
  readonly clientLeft: AbortSignal;
}

/** Of a route of your own. Each function gets a request of its own, whose body it may read. */
export interface MeterOptions {
  /**
   * What is sold, as keys allow it and as it stands in usage. Throw a ModelNotFoundError for what is not sold. Undefined is a
   * 400, as is anything but a string of 1 to 255 characters, and a body that is not JSON if you parse it.
   */
  readonly model: string | ((request: Request) => string | undefined | Promise<string | undefined>);
  /** The most that a call can cost, in USD: held before the handler is called. */
  readonly price: string | ((request: Request, caller: MeteredCaller) => string | Promise<string>);
  /** Tokens that count against the key's limit per minute. @default 0 */
  readonly tokens?: (request: Request) => number | Promise<number>;
  /** Who delivers it, as it stands in the journal. @default 'host' */
  readonly provider?: string;
  /** @default ['POST'] */
  readonly methods?: readonly string[];
}

/** A route of the host's own, behind the router's keys and credits. */
export interface MeteredEndpoint {
  readonly name: 'metered';
  readonly handler: MeteredHandler;
  readonly options: MeterOptions;
  readonly methods: readonly string[];
}

const MEMBERS: Record<keyof MeterOptions, true> = {
  model: true,
  price: true,
  tokens: true,
  provider: true,
  methods: true,
};

/** @throws {TypeError} naming the invalid option */
export function meteredEndpoint(handler: MeteredHandler, options: MeterOptions): MeteredEndpoint {
  if (typeof handler !== 'function')
    throw new TypeError(`handler must be a function, got ${showValue(handler)}`);
  optionsObject(options, MEMBERS);
  const { model, price, tokens, provider, methods = ['POST'] } = options;
  if (typeof model !== 'function') checkName('model', model);
  if (typeof price !== 'function') parseAmount(price, 'price');
  if (provider !== undefined) checkName('provider', provider);
  if (tokens !== undefined && typeof tokens !== 'function') {
    throw new TypeError(`tokens must be a function, got ${showValue(tokens)}`);
  }
  if (!Array.isArray(methods) || methods.some((method) => !/^[A-Z]+$/.test(method))) {
    throw new TypeError(`methods must be a list of methods, as ["POST"], got ${showValue(methods)}`);
  }
  return { name: 'metered', handler, options, methods: [...methods, 'OPTIONS'] };
}

export interface MeteredServices {
  readonly authenticator: Pick<Authenticator, 'refresh' | 'reject'>;
  readonly holds: FixedHolds;
  readonly catalog: Catalog;
  readonly settings: SizeLimits & Pick<Settings, 'dimensions'>;
  readonly buffered: BufferedBytes;
  readonly running: RunningAttempts;
  readonly closing: () => boolean;
}

/** A request of a metered route, read and priced. */
interface PricedCall {
  readonly model: string;
  readonly price: NanoDollars;
  readonly tokens: number;
  readonly idempotencyKey: IdempotencyKey | undefined;
}

/** Attempts before giving up on a key that changes while its request is being admitted. */
const MAX_KEY_CHANGES = 5;

/**
 * A request to a metered route: read, price, hold, call the handler, send its response, settle.
 *
 * Charged is what the handler reports, else the whole price of a 2xx response; nothing if it throws before.
 * @throws {RouterError} to send to the client
 * @throws {ClientDisconnectedError} if the client has left, and the handler stopped for that
 */
export async function serveMetered(
  exchange: Exchange,
  client: ClientConnection,
  caller: Caller,
  endpoint: MeteredEndpoint,
  services: MeteredServices,
  active: ActiveRequest,
): Promise<void> {
  active.account = caller.account;
  active.key = caller.key;
  const closed = new AbortController();
  const running = services.running.add(closed);
  const incoming = { exchange, client, endpoint, closed };
  try {
    const { body, hold } = await holdFor(incoming, caller, services, active);
    active.trace?.admitted([]);
    await callHandler(incoming, body, hold, active);
  } finally {
    services.running.delete(running);
  }
}

interface IncomingCall {
  readonly exchange: Exchange;
  readonly client: ClientConnection;
  readonly endpoint: MeteredEndpoint;
  /** Aborted by the router's close, and by the client while nothing is held. */
  readonly closed: AbortController;
}

/** Reads a request, asks the host for its price, and holds that. */
async function holdFor(
  { exchange, client, endpoint, closed }: IncomingCall,
  caller: Caller,
  services: MeteredServices,
  active: ActiveRequest,
): Promise<{ readonly body: Buffer; readonly hold: FixedHold }> {
  const { signal } = closed;
  const buffer = services.buffered.reserveFor(caller.account, caller.key);
  try {
    const body = await readBytes(exchange, services.settings, buffer);
    client.onDisconnect({
      onDisconnect: () => {
        closed.abort(new ClientDisconnectedError());
      },
    });
    const request = (): Request => lazyRequest(exchange, body, signal);
    const call = await unlessAborted(priceCall(endpoint, caller, exchange, body, request), signal);
    client.onDisconnect(undefined);
    active.model = call.model;
    active.trace?.modelResolved({ id: call.model, wildcard: undefined }, false);
    if (services.closing()) throw new RouterClosingError();
    return { body, hold: await admit(call, caller, exchange, endpoint, services) };
  } finally {
    buffer.release();
  }
}

/** Calls the handler, sends its response, and settles. */
async function callHandler(
  { exchange, client, endpoint, closed }: IncomingCall,
  body: Buffer,
  hold: FixedHold,
  active: ActiveRequest,
): Promise<void> {
  const progress = new MeteredProgress(hold, client);
  try {
    const answer: unknown = await endpoint.handler(webRequest(exchange, body, closed.signal), progress.call);
    if (!isResponse(answer)) {
      throw new TypeError(`The metered handler must return a Response, got ${typeof answer}`);
    }
    progress.answered(answer.ok);
    await sendWebResponse(exchange, answer, progress.clientLeft);
    progress.sent();
  } catch (error) {
    if (progress.clientLeft.aborted && isAbort(error, progress.clientLeft))
      throw new ClientDisconnectedError();
    throw error;
  } finally {
    active.trace?.ended({ ending: progress.ending }, 0, undefined);
    progress.settle();
  }
}

/** Whether a handler has failed because it stopped its work; the errors of the official clients have it in their class. */
function isAbort(error: unknown, { reason }: AbortSignal): boolean {
  if (error === reason) return true;
  return (
    error instanceof Error && [error.name, error.constructor.name].some((name) => name.endsWith('AbortError'))
  );
}

async function priceCall(
  { options: { model, price, tokens } }: MeteredEndpoint,
  { account, key }: Caller,
  exchange: Exchange,
  body: Buffer,
  request: () => Request,
): Promise<PricedCall> {
  const givenKey = idempotencyKeyOf(exchange.headers);
  try {
    const name: unknown = typeof model === 'function' ? await model(request()) : model;
    if (name === undefined) {
      throw new InvalidRequestError('missing_required_parameter', 'The request names no model.', 'model');
    }
    if (!isName(name)) {
      const code = typeof name === 'string' ? 'invalid_value' : 'invalid_type';
      const message = 'The model must be a string of 1 to 255 characters on one line.';
      throw new InvalidRequestError(code, message, 'model');
    }
    const amount = typeof price === 'function' ? await price(request(), { account, key }) : price;
    return {
      model: name,
      price: parseAmount(amount, 'price'),
      tokens: tokens ? await tokens(request()) : 0,
      idempotencyKey: givenKey === undefined ? undefined : await hashIdempotencyKey(givenKey, [body]),
    };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new InvalidRequestError('invalid_json', `The request body is not valid JSON: ${error.message}`);
  }
}

/** A body of which the router reads nothing. */
const NOTHING_SAID = { endUser: undefined, tags: undefined };

/** @throws {RouterError} with the reason; nothing is held then */
async function admit(
  { model, price, tokens, idempotencyKey }: PricedCall,
  first: Caller,
  exchange: Exchange,
  { options: { provider = 'host' } }: MeteredEndpoint,
  { authenticator, holds, catalog, settings }: MeteredServices,
): Promise<FixedHold> {
  let caller = first;
  const said = saidDimensions(exchange.headers, NOTHING_SAID, settings.dimensions);
  const isFinal = caller.externalKey && !caller.accountVersion;
  if (!mayUse(caller, model, catalog) && !isFinal) {
    // Another process may have allowed the model since its key was looked up.
    caller = await authenticator.refresh(exchange.headers, caller);
  }
  for (let changes = 0; changes < MAX_KEY_CHANGES; changes++) {
    if (caller.models && !mayUse(caller, model, catalog)) {
      throw new ModelNotAllowedError(model, caller.models.patterns);
    }
    const counted = countedAs(caller, said, settings.dimensions, provider);
    const terms = { requestId: exchange.id, caller, model, provider, tokens, idempotencyKey, ...counted };
    const { result, hold } = await holds.open(terms, price);
    if (result.rates) exchange.rateLimitHeaders = rateLimitHeaders(result.rates);
    if (hold) return hold;
    if (result.code !== 'changed') {
      const refusal = refusalOf(result, { required: price, affordableTokens: () => 0 });
      // The key cache must not serve a key that the ledger rejected.
      if (refusal instanceof AuthenticationError) authenticator.reject(exchange.headers, caller);
      throw refusal;
    }
    caller = await authenticator.refresh(exchange.headers, caller);
  }
  throw new CreditStoreUnavailableError();
}

function mayUse({ models }: Caller, model: string, catalog: Catalog): boolean {
  return models === undefined || isAllowed(models, model, catalog);
}

/** What becomes of a call, and of its hold. */
class MeteredProgress {
  readonly #hold: FixedHold;
  readonly #left = new AbortController();
  #isOk = false;
  #isSent = false;

  constructor(hold: FixedHold, client: ClientConnection) {
    this.#hold = hold;
    client.onDisconnect({
      onDisconnect: () => {
        this.#left.abort();
      },
    });
  }

  get call(): MeteredCall {
    const { terms, amount: held } = this.#hold;
    const { requestId, caller, model } = terms;
    return {
      requestId,
      caller: { account: caller.account, key: caller.key },
      model,
      held: formatUsd(held),
      charge: (amount, consumed) => {
        const owed = { amount: parseAmount(amount, 'amount'), consumption: parseConsumption(consumed) };
        if (this.#hold.state !== 'open') {
          throw new Error(`charge must be called before the call is over; this one is over: ${requestId}`);
        }
        this.#hold.owed = owed;
      },
      clientLeft: this.#left.signal,
    };
  }

  get clientLeft(): AbortSignal {
    return this.#left.signal;
  }

  answered(isOk: boolean): void {
    this.#isOk = isOk;
  }

  /** The response is over: the client has it, or has left. */
  sent(): void {
    this.#isSent = true;
  }

  get ending(): Ending {
    if (this.#left.signal.aborted) return 'client_gone';
    return this.#isOk && this.#isSent ? 'finished' : 'failed';
  }

  /** Posts the charge, off the client's path, unless the router was closed before. */
  settle(): void {
    const hold = this.#hold;
    if (hold.state !== 'open') return;
    const { ending } = this;
    const whole = { amount: hold.amount, consumption: NOTHING_CONSUMED };
    const cost = hold.owed ?? (this.#isOk && this.#isSent ? whole : undefined);
    if (cost) void hold.settle(cost.amount, { ...cost.consumption, ending });
    else void hold.void(ending);
  }
}
