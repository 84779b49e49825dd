import { hash, timingSafeEqual } from 'node:crypto';

import { type AdminRouter, createAdminRouter } from '../../admin/admin-router.ts';
import type { ChatCompletionsRouter } from '../../router/router.ts';
import type { Log } from './log.ts';

/** In characters; shorter tokens can be guessed. */
const MIN_TOKEN_LENGTH = 16;

/**
 * The admin API of a standalone server, authorized by a token: `Authorization: Bearer TOKEN`.
 *
 * @throws {Error} if the token is missing, too short, or none that a request can have
 */
export function createAdminApi(
  router: ChatCompletionsRouter,
  token: string | undefined,
  log: Log,
): AdminRouter {
  if (token === undefined || token.length < MIN_TOKEN_LENGTH) {
    throw new Error(
      `the admin API requires ADMIN_TOKEN in the environment, with at least ${MIN_TOKEN_LENGTH} characters; it has ${token?.length ?? 0}`,
    );
  }
  if (!/^[!-~]+$/.test(token)) {
    throw new Error(
      'ADMIN_TOKEN must be of printable ASCII characters, without spaces and line breaks: no request can have another token',
    );
  }
  const expected = digest(`Bearer ${token}`);
  return createAdminRouter(router, {
    authorize: ({ headers: { authorization = '' } }) =>
      timingSafeEqual(digest(authorization), expected) ? 'admin' : undefined,
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
