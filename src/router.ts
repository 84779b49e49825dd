import { type ApiKeys, createApiKeys } from './accounts/api-keys.ts';
import { Authenticator } from './accounts/authenticate.ts';
import { createNodeHandler, type NodeHandler } from './adapters/node.ts';
import { type Credits, createCredits } from './ledger/credits.ts';
import type { LedgerEvent } from './ledger/events.ts';
import type { LedgerStore } from './ledger/ledger.ts';
import { MemoryStore } from './ledger/memory-store.ts';
import { SqliteStore } from './ledger/sqlite-store.ts';
import { RequestIds } from './ledger/request-ids.ts';
import { InternalError, RouterError } from './errors.ts';
import { createCatalog } from './models/catalog.ts';
import { createModelList } from './models/list.ts';
import { type ChatCompletionsRouterOptions, type Hooks, resolveSettings, wrong } from './options.ts';
import { route } from './routes.ts';
import { Settlements } from './settlement.ts';
import { Agents } from './upstream/agents.ts';
import { RunningAttempts } from './upstream/attempt.ts';

/**
 * The router: mount it as it is, `app.use('/v1', router)` or `http.createServer(router)`,
 * and run its accounts through `keys` and `credits`.
 */
export interface ChatCompletionsRouter extends NodeHandler {
  /** API keys of your customers. */
  readonly keys: ApiKeys;
  /** Their prepaid credits, in USD as decimal strings. */
  readonly credits: Credits;
  /**
   * Ends service: refuses new requests with 503, lets running ones finish for up to `closeTimeoutMs`,
   * aborts the rest, posts every charge, and closes the store. Can be called again.
   */
  close(): Promise<void>;
}

/**
 * Makes an OpenAI-compatible router out of providers, models and a store of credits.
 *
 * Touches no network, file or environment variable.
 *
 * @throws {TypeError} naming the option that can't be right
 */
export function createChatCompletionsRouter(options: ChatCompletionsRouterOptions): ChatCompletionsRouter {
  const settings = resolveSettings(options);
  const catalog = createCatalog(options, settings.timeouts);
  const store = openStore(options.store);
  const { onSettled, onError, tell } = guardHooks(options.hooks ?? {});
  const { authenticate, cacheKey } = options;
  const authenticator = new Authenticator({ store, authenticate, cacheKey, keyCacheMs: settings.keyCacheMs });
  const settlements = new Settlements({ store, holdMode: settings.holdMode, onSettled, onError, tell });
  const agents = new Agents();
  const running = new RunningAttempts();
  const ids = new RequestIds();
  const open = new Set<Promise<void>>();
  let closed: Promise<void> | undefined;

  const services = {
    settings,
    catalog,
    store,
    authenticator,
    settlements,
    agents,
    running,
    models: createModelList(catalog),
    onError,
    closing: (): boolean => closed !== undefined,
  };

  const handler = createNodeHandler(
    (exchange) => {
      const handled = route(exchange, services).finally(() => {
        open.delete(handled);
      });
      open.add(handled);
      return handled;
    },
    () => ids.next(),
  );

  async function close(): Promise<void> {
    const { closeTimeoutMs } = settings;
    await within(closeTimeoutMs, Promise.allSettled(open));
    running.close();
    // Aborted requests end at once; what still hangs then hangs in the host's own `authenticate` or `apiKey`.
    await within(ABORT_MS, Promise.allSettled(open));
    await within(closeTimeoutMs, settlements.drain());
    const lost = settlements.abandon();
    if (lost > 0) onError(new Error(`${lost} charges could not be posted before the router was closed`));
    agents.close();
    await store.close();
  }

  return Object.assign(handler, {
    keys: createApiKeys(store, authenticator),
    credits: createCredits(store),
    close: () => (closed ??= close()),
  });
}

const ABORT_MS = 1000;

/** Waits for something, but not for ever: says whether it came in time. */
async function within(ms: number, awaited: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const inTime = await Promise.race([awaited.then(() => true), timeout]);
  clearTimeout(timer);
  return inTime;
}

function openStore(store: ChatCompletionsRouterOptions['store']): LedgerStore {
  if (store === 'memory:') return new MemoryStore();
  if (typeof store === 'string' && /^sqlite:./.test(store))
    return new SqliteStore(store.slice('sqlite:'.length));
  if (typeof store === 'object' && store !== null && typeof store.admit === 'function') return store;
  throw wrong(
    'store',
    "'memory:', 'sqlite:FILE' or a store object",
    typeof store === 'string' ? store : typeof store,
  );
}

/** Hooks as the inside calls them: they return nothing, and neither a throw nor a rejection gets out. */
function guardHooks(hooks: Hooks): {
  readonly onSettled: NonNullable<Hooks['onSettled']>;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly tell: (event: LedgerEvent) => void;
} {
  const { onSettled, onError = logError, onLedgerEvent } = hooks;
  return {
    onSettled: (settled) => {
      guard(() => onSettled?.(settled));
    },
    onError: (error, requestId) => {
      guard(() => onError(error, requestId === undefined ? {} : { requestId }));
    },
    tell: (event) => {
      guard(() => onLedgerEvent?.(event));
    },
  };
}

function guard(call: () => unknown): void {
  new Promise((resolve) => {
    resolve(call());
  }).catch(logError);
}

/** Without an `onError` of the host's, errors go to stderr: a line for what we foresaw, all of it for what we did not. */
function logError(error: unknown, context: { readonly requestId?: string } = {}): void {
  const foreseen = error instanceof RouterError && !(error instanceof InternalError);
  const because = foreseen && error.cause instanceof Error ? ` (${error.cause.message})` : '';
  const shown = foreseen ? `${error.code}: ${error.message}${because}` : error;
  console.error('chat-completions-router:', context.requestId ?? '-', shown);
}
