import type { AdminClient } from '../../client/admin-api.generated.ts';
import { AdminApiError } from '../../client/admin-api-error.ts';
import { createAdminClient } from '../../client/admin-client.ts';
import { DEFAULT_GATEWAY_URL } from './arguments.ts';
import { UsageError } from './command.ts';

/**
 * Asks a running gateway.
 *
 * @throws {Error} an error of the API, with the ID of its request, by which the audit log has it
 */
export async function withGateway<Result>(
  url: string | undefined,
  ask: (gateway: AdminClient) => Promise<Result>,
): Promise<Result> {
  const gateway = gatewayAt(url);
  try {
    return await ask(gateway);
  } catch (error) {
    if (!(error instanceof AdminApiError) || error.requestId === undefined) throw error;
    throw new Error(`${error.message} (request ${error.requestId})`, { cause: error });
  }
}

/**
 * The admin API of a running gateway: at `--url`, with the token in ADMIN_TOKEN.
 *
 * @throws {UsageError} for an invalid URL, or without a token
 */
function gatewayAt(url: string = DEFAULT_GATEWAY_URL): AdminClient {
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
