import { RouterError } from '../../errors/router-error.ts';
import { ProviderError } from '../../errors/upstream-errors.ts';
import type { Hooks } from '../../observability/hooks.ts';
import type { Log } from './log.ts';

/** Hooks that log requests, errors and events. */
export function logHooks(log: Log): Hooks {
  return {
    onResponse: (ended) => {
      log(ended.status >= 500 ? 'warn' : 'info', 'response', { ...ended });
    },
    onSettled: ({ usage, ...settled }) => {
      log('info', 'settled', { ...settled, ...usage });
    },
    onError: (error, { requestId }) => {
      const { code, provider, model, attempt }: Partial<RouterError> =
        error instanceof RouterError ? error : {};
      const cause = messagesOf(error.cause);
      const { status: upstreamStatus, code: upstreamCode }: Partial<ProviderError> =
        error.cause instanceof ProviderError ? error.cause : {};
      // Only an unexpected error needs its stack.
      const stack = code === undefined || code === 'internal_error' ? error.stack : undefined;
      log('error', 'error', {
        requestId,
        code,
        message: error.message,
        cause,
        provider,
        model,
        attempt,
        upstreamStatus,
        upstreamCode,
        stack,
      });
    },
    onLedgerEvent: ({ type, ...event }) => {
      log('warn', type, event);
    },
    onHealthChange: ({ type, ...change }) => {
      log(type === 'target_ejected' ? 'warn' : 'info', type, change);
    },
  };
}

/** The messages of a cause and of its own causes: the last one is often the only one that says what to repair. */
function messagesOf(cause: unknown): string | undefined {
  const messages: string[] = [];
  for (let next = cause; next instanceof Error; next = next.cause) messages.push(next.message);
  return messages.length > 0 ? messages.join(': ') : undefined;
}
