import type { AdminClient } from '../../client/admin-api.generated.ts';
import { createAdminClient } from '../../client/admin-client.ts';
import { DEFAULT_GATEWAY_URL } from './arguments.ts';
import { UsageError } from './command.ts';

/**
 * The admin API of a running gateway: at `--url`, with the token in ADMIN_TOKEN.
 *
 * @throws {UsageError} for an invalid URL, or without a token
 */
export function gatewayAt(url: string = DEFAULT_GATEWAY_URL): AdminClient {
  const token = process.env['ADMIN_TOKEN'];
  if (token === undefined || token === '') {
    throw new UsageError('the admin API requires a token: set ADMIN_TOKEN, or use --env-file FILE');
  }
  try {
    return createAdminClient({ baseURL: url, token });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new UsageError(error.message.replace(/^baseURL/, '--url').replace(/^token/, 'ADMIN_TOKEN'));
  }
}
