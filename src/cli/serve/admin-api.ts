import { hash, timingSafeEqual } from 'node:crypto';

import { type AdminRouter, createAdminRouter } from '../../admin/admin-router.ts';
import type { ChatCompletionsRouter } from '../../router/router.ts';
import type { Log } from './log.ts';

/** Shorter ones can be guessed. */
const MIN_TOKEN_LENGTH = 16;

/**
 * The admin door of a standalone server, for whoever has the token: `Authorization: Bearer TOKEN`.
 *
 * @throws an Error when there is no token that can be used
 */
export function createAdminApi(
  router: ChatCompletionsRouter,
  token: string | undefined,
  log: Log,
): AdminRouter {
  if (token === undefined || token.length < MIN_TOKEN_LENGTH) {
    throw new Error(
      `the admin door needs ADMIN_TOKEN in the environment, of ${MIN_TOKEN_LENGTH} characters at least; it has ${token?.length ?? 0}`,
    );
  }
  const wanted = digest(`Bearer ${token}`);
  return createAdminRouter(router, {
    authorize: ({ headers: { authorization = '' } }) =>
      timingSafeEqual(digest(authorization), wanted) ? 'admin' : undefined,
    onAudit: (event) => {
      log('info', 'audit', { ...event });
    },
    onError: (error, { requestId }) => {
      log('error', 'error', { requestId, message: error.message, stack: error.stack });
    },
  });
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
