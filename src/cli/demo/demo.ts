import { once } from 'node:events';
import { createServer } from 'node:http';

import { createChatCompletionsRouter } from '../../router/router.ts';
import { receiveSignal } from '../serve/receive-signal.ts';
import { listen } from '../serve/server.ts';
import { announce } from './accounts.ts';
import { findDemoProviders } from './providers.ts';

const HOST = '127.0.0.1';

/**
 * Serves the demo until a signal ends it; running streams are finished first. Credits and keys are in memory.
 *
 * @returns true once the server has closed
 * @throws {Error} if the port can't be used
 */
export async function demo({ port }: { readonly port: number }): Promise<boolean> {
  const { providers, models } = await findDemoProviders(process.env);
  const router = createChatCompletionsRouter({ store: 'memory:', providers, models });
  const server = createServer((request, response) => void router(request, response));
  const origin = await listen(server, port, HOST);
  const ended = receiveSignal(() => console.error('Ended before the running answers were finished.'));
  await announce(router, { baseURL: `${origin}/v1`, models });

  await ended;
  console.log('Closing. Running answers are finished first; Ctrl-C again ends them.');
  const closed = once(server, 'close');
  server.close(); // no new connections
  await router.close(); // running streams end and are charged
  server.closeAllConnections();
  await closed;
  return true;
}
