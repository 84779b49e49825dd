import { CreditStoreUnavailableError, InternalError, RouterError } from '../errors/errors.ts';
import type { HealthChange, Hooks, RouterGauges, Settled } from './hooks.ts';
import type { LedgerEvent } from '../ledger/contract/events.ts';
import { StoreUnavailableError } from '../ledger/contract/ledger-store.ts';
import { type UpstreamHeaders, type ContentHooks, Observer } from './request-trace.ts';

/** Hooks as the inside calls them: they return nothing, and neither a throw nor a rejection gets out. */
export interface HookRunner {
  /** Undefined where no hook wants to know: then nothing is written down for it. */
  readonly observer: Observer | undefined;
  /** Undefined where no hook wants to know. */
  readonly onSettled: ((settled: Settled) => void) | undefined;
  readonly onError: (error: Error, requestId?: string) => void;
  readonly emit: (event: LedgerEvent) => void;
  readonly onHealthChange: (change: HealthChange) => void;
  readonly onRouter: (router: RouterGauges) => void;
}

/** How often the host is told, at most, of requests that a store that is away has failed. */
const UNAVAILABLE_REPORT_MS = 1000;

/** Makes one of many, each of which is called whatever the others do. */
export function createHookRunner(given: Hooks | readonly Hooks[] = []): HookRunner {
  const all: readonly Hooks[] = Array.isArray(given) ? given : [given];
  const onRequest = allOf(all.map((hooks) => hooks.onRequest));
  const onResponse = allOf(all.map((hooks) => hooks.onResponse));
  const onContent = contentHooksOf(all);
  const askHeaders = upstreamHeadersOf(all.map((hooks) => hooks.upstreamHeaders));
  const onSettled = allOf(all.map((hooks) => hooks.onSettled));
  const onHealthChange = allOf(all.map((hooks) => hooks.onHealthChange));
  const onRouter = allOf(all.map((hooks) => hooks.onRouter));
  const isHeard = (name: 'onError' | 'onLedgerEvent'): boolean =>
    all.some((hooks) => hooks[name] && !hooks.keepsDefaultLog);
  const errorHooks = all.map((hooks) => hooks.onError);
  const onError = allOf(isHeard('onError') ? errorHooks : [...errorHooks, logError]);
  const ledgerHooks = all.map((hooks) => hooks.onLedgerEvent);
  const tell = allOf(isHeard('onLedgerEvent') ? ledgerHooks : [...ledgerHooks, logAlarm]);
  let awayToldAt = -Infinity;
  return {
    observer:
      (onRequest ?? onResponse ?? onContent ?? askHeaders) &&
      new Observer({ onRequest, onResponse, onContent, askHeaders }),
    onSettled,
    onError: (error, requestId) => {
      if (error instanceof StoreUnavailableError || error instanceof CreditStoreUnavailableError) {
        // While the store is away every request says so.
        if (Date.now() - awayToldAt < UNAVAILABLE_REPORT_MS) return;
        awayToldAt = Date.now();
      }
      onError?.(error, requestId === undefined ? {} : { requestId });
    },
    emit: (event) => tell?.(event),
    onHealthChange: (change) => onHealthChange?.(change),
    onRouter: (router) => onRouter?.(router),
  };
}

/** Calls them all; undefined where there is none. */
function allOf<Told extends readonly unknown[]>(
  hooks: readonly (((...told: Told) => unknown) | undefined)[],
): ((...told: Told) => void) | undefined {
  const present = hooks.filter((hook) => hook !== undefined);
  if (present.length === 0) return undefined;
  return (...told) => {
    for (const hook of present) guard(() => hook(...told));
  };
}

/** What those hooks are given of content that have not said how much they want. */
const CONTENT_BYTES = 65_536;

function contentHooksOf(all: readonly Hooks[]): ContentHooks | undefined {
  const present = all.flatMap(({ onContent, maxContentBytes: most = CONTENT_BYTES }) =>
    onContent ? [{ onContent, most }] : [],
  );
  if (present.length === 0) return undefined;
  return {
    maxBytes: Math.max(...present.map(({ most }) => most)),
    emit: (completion, content) => {
      for (const { onContent, most } of present) guard(() => onContent(content.toEvent(completion, most)));
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
        // Nobody awaits one that is async by mistake, and its rejection must not end the process.
        if (given instanceof Promise) guard(() => given);
        return typeof given === 'object' ? { ...given } : {};
      } catch (error) {
        logError(error);
        return {};
      }
    });
}

/** Calls something of the host's, which can be wrong in any way. */
export function guard(call: () => unknown): void {
  new Promise((resolve) => {
    resolve(call());
  }).catch(logError);
}

/** Events that somebody must act on, and that no request shows. */
const ALARMS: readonly LedgerEvent['type'][] = [
  'account_lost',
  'rollback',
  'repair_refused',
  'dead_letter',
  'outbox_failed',
  'outbox_damaged',
];

/** Without an `onLedgerEvent` of the host's, what must not go unheard goes to stderr. */
function logAlarm(event: LedgerEvent): void {
  if (ALARMS.includes(event.type)) console.error('chat-completions-router:', '-', JSON.stringify(event));
}

/** What went wrong, why, and where. */
function lineOf({ code, message, cause, provider, model, attempt }: RouterError): string {
  const because = cause instanceof Error ? ` (${cause.message})` : '';
  const which = attempt === undefined ? '' : `, attempt ${attempt}`;
  const where = model === undefined ? '' : ` [${provider}/${model}${which}]`;
  return `${code}: ${message}${because}${where}`;
}

/** Without an `onError` of the host's, errors go to stderr: a line for what we foresaw, all of it for what we did not. */
function logError(error: unknown, context: { readonly requestId?: string } = {}): void {
  const foreseen = error instanceof RouterError && !(error instanceof InternalError);
  const shown = foreseen ? lineOf(error) : error;
  console.error('chat-completions-router:', context.requestId ?? '-', shown);
}
