import { isLater } from '../async/answer.ts';
import { CreditStoreUnavailableError } from '../errors/credit-errors.ts';
import { InternalError, RouterError } from '../errors/router-error.ts';
import { ProviderError } from '../errors/upstream-errors.ts';
import type { HealthChange, Hooks, RouterGauges, Settled } from './hooks.ts';
import type { LedgerEvent } from '../ledger/contract/events.ts';
import { StoreUnavailableError } from '../ledger/contract/ledger-store.ts';
import { type UpstreamHeaders, type ContentHooks, Observer } from './request-trace.ts';

/** All hooks of a router: calls return nothing, and neither throw nor reject. */
export interface HookRunner {
  /** Undefined if no hook needs it: then requests are not traced. */
  readonly observer: Observer | undefined;
  /** Undefined if there is no such hook. */
  readonly onSettled: ((settled: Settled) => void) | undefined;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly emit: (event: LedgerEvent) => void;
  readonly onHealthChange: (change: HealthChange) => void;
  readonly onRouter: (router: RouterGauges) => void;
}

/** While the store is unavailable, at most one error per this interval is reported. */
const UNAVAILABLE_REPORT_MS = 1000;

/** Combines hooks: each is called, whatever the others do. */
export function createHookRunner(given: Hooks | readonly Hooks[] = []): HookRunner {
  const all: readonly Hooks[] = Array.isArray(given) ? given : [given];
  const onRequest = allOf(all.map((hooks) => hooks.onRequest));
  const onResponse = allOf(all.map((hooks) => hooks.onResponse));
  const onContent = contentHooksOf(all);
  const askHeaders = upstreamHeadersOf(all.map((hooks) => hooks.upstreamHeaders));
  const onSettled = allOf(all.map((hooks) => hooks.onSettled));
  const onHealthChange = allOf(all.map((hooks) => hooks.onHealthChange));
  const onRouter = allOf(all.map((hooks) => hooks.onRouter));
  const hasListener = (name: 'onError' | 'onLedgerEvent'): boolean =>
    all.some((hooks) => hooks[name] && !hooks.keepsDefaultLog);
  const errorHooks = all.map((hooks) => hooks.onError && orLogged(hooks.onError));
  const onError = allOf(hasListener('onError') ? errorHooks : [...errorHooks, logError]);
  const onThreshold = allOf(all.map((hooks) => hooks.onThreshold));
  const ledgerHooks = all.map((hooks) => hooks.onLedgerEvent);
  const emit = allOf(hasListener('onLedgerEvent') ? ledgerHooks : [...ledgerHooks, logAlarm]);
  let unavailableReportedAt = -Infinity;
  return {
    observer:
      (onRequest ?? onResponse ?? onContent ?? askHeaders) &&
      new Observer({ onRequest, onResponse, onContent, askHeaders }),
    onSettled,
    onError: (error, requestId) => {
      if (error instanceof StoreUnavailableError || error instanceof CreditStoreUnavailableError) {
        // While the store is unavailable, every request has this error.
        const now = performance.now();
        if (now - unavailableReportedAt < UNAVAILABLE_REPORT_MS) return;
        unavailableReportedAt = now;
      }
      onError?.(error, requestId === undefined ? {} : { requestId });
    },
    emit: (event) => {
      emit?.(event);
      if (event.type === 'balance_below' || event.type === 'budget_at') onThreshold?.(event);
    },
    onHealthChange: (change) => onHealthChange?.(change),
    onRouter: (router) => onRouter?.(router),
  };
}

/** Calls all hooks; undefined if there are none. */
function allOf<Event, Context = void>(
  hooks: readonly (Hook<Event, Context> | undefined)[],
): ((event: Event, context: Context) => void) | undefined {
  const present = hooks.filter((hook) => hook !== undefined);
  if (present.length === 0) return undefined;
  return (event, context) => {
    for (const hook of present) callHook(hook, event, context);
  };
}

type Hook<Event, Context> = (event: Event, context: Context) => unknown;

/** The hook; an error that it fails to take is logged to stderr, as the client may be told that the operator knows. */
function orLogged(hook: ErrorHook): ErrorHook {
  return async (error, context) => {
    try {
      await hook(error, context);
    } catch (thrown) {
      logError(thrown, context);
      logError(error, context);
    }
  };
}

type ErrorHook = NonNullable<Hooks['onError']>;

/** Default of `maxContentBytes`. */
const DEFAULT_CONTENT_BYTES = 65_536;

function contentHooksOf(all: readonly Hooks[]): ContentHooks | undefined {
  const present = all.flatMap(({ onContent, maxContentBytes: maxBytes = DEFAULT_CONTENT_BYTES }) =>
    onContent ? [{ onContent, maxBytes }] : [],
  );
  if (present.length === 0) return undefined;
  return {
    maxBytes: Math.max(...present.map(({ maxBytes }) => maxBytes)),
    emit: (completion, content) => {
      for (const { onContent, maxBytes } of present)
        guard(() => onContent(content.toEvent(completion, maxBytes)));
    },
  };
}

function upstreamHeadersOf(hooks: readonly Hooks['upstreamHeaders'][]): UpstreamHeaders | undefined {
  const present = hooks.filter((hook) => hook !== undefined);
  if (present.length === 0) return undefined;
  return (attempt) =>
    present.map((hook) => {
      try {
        const given: unknown = hook(attempt);
        // A hook that is async by mistake is not awaited, but its rejection must not end the process.
        if (given instanceof Promise) guard(() => given);
        return typeof given === 'object' ? { ...given } : {};
      } catch (error) {
        logError(error);
        return {};
      }
    });
}

/** Calls code of the app, logging what it throws or rejects with. */
export function guard(call: () => unknown): void {
  callHook(call, undefined, undefined);
}

/** As `guard`, without a function for each call. A hook that has no context gets one argument: it may be any function. */
function callHook<Event, Context>(hook: Hook<Event, Context>, event: Event, context: Context): void {
  try {
    const given = context === undefined ? Reflect.apply(hook, undefined, [event]) : hook(event, context);
    if (isLater(given)) Promise.resolve(given).catch(logError);
  } catch (error) {
    logError(error);
  }
}

/** Events that an operator must act on, and that no request shows. */
const ALARMS: readonly LedgerEvent['type'][] = [
  'account_lost',
  'rollback',
  'repair_refused',
  'dead_letter',
  'outbox_failed',
  'outbox_damaged',
];

/** Default without an `onLedgerEvent` hook: alarms go to stderr. */
function logAlarm(event: LedgerEvent): void {
  if (ALARMS.includes(event.type)) console.error('chat-completions-router:', '-', JSON.stringify(event));
}

/** One line: what went wrong, why, and where. */
function lineOf({ code, message, cause, provider, model, attempt }: RouterError): string {
  const said =
    cause instanceof ProviderError ? [cause.status, cause.code].filter((each) => each !== undefined) : [];
  const because = cause instanceof Error ? ` (${[...said, cause.message].join(' ')})` : '';
  const which = attempt === undefined ? '' : `, attempt ${attempt}`;
  const where = model === undefined ? '' : ` [${provider}/${model}${which}]`;
  return `${code}: ${message}${because}${where}`;
}

/** Default without a listener: errors go to stderr, expected ones as one line, others with their stack. */
export function logError(error: unknown, context: { readonly requestId?: string } = {}): void {
  const isExpected = error instanceof RouterError && !(error instanceof InternalError);
  const shown = isExpected ? lineOf(error) : error;
  console.error('chat-completions-router:', context.requestId ?? '-', shown);
}
