import type { Hooks } from 'chat-completions-router';
import type { Logger } from 'pino';

/** A line for each response, each charge, and whatever goes wrong. No prompt, no answer and no key is in any. */
export function logHooks(log: Logger): Hooks {
  return {
    onResponse: (ended) => {
      log[ended.status >= 500 ? 'warn' : 'info'](ended, 'response');
    },
    onSettled: (settled) => {
      log.info(settled, 'settled');
    },
    onError: (err, { requestId }) => {
      log.error({ err, requestId }, err.message);
    },
    onLedgerEvent: (event) => {
      log.warn(event, event.type);
    },
    onHealthChange: (change) => {
      log[change.type === 'target_ejected' ? 'warn' : 'info'](change, change.type);
    },
  };
}
