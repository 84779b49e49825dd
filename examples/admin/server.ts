/**
 * The admin API beside the router: accounts, keys, credits and usage for whoever has the token, and a page of them.
 *
 *     npm run example -- admin
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createChatCompletionsRouter } from 'chat-completions-router';
import { createAdminRouter } from 'chat-completions-router/admin';
import express from 'express';
import { announce, listening, models, port, providers } from '../demo/demo.ts';

const router = createChatCompletionsRouter({ store: 'memory:', providers, models });

/** In your app: from its environment, or your own sessions in place of it. */
const token = process.env['ADMIN_TOKEN'] ?? randomBytes(24).toString('base64url');

const admin = createAdminRouter(router, {
  // The operator's name, for the audit, or undefined for a stranger.
  authorize: ({ headers }) => (isSame(headers.authorization, `Bearer ${token}`) ? 'demo' : undefined),
  onAudit: ({ operator = 'a stranger', action, account, outcome }) => {
    console.log(`audit: ${operator}, ${action}, ${account}: ${outcome}`);
  },
});

/** Takes as long for a token that is nearly right as for any other. */
function isSame(given = '', wanted: string): boolean {
  return timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', wanted, 'buffer'));
}

const app = express();
app.use('/v1', router);
app.use('/admin', admin); // in your app: behind a limit of requests, and not on the public address

const server = app.listen(port, '127.0.0.1', async (error) => {
  if (error) throw error;
  await announce(router, server);
  const address = `http://localhost:${listening(server)}/admin`;
  console.log(`  Admin     ${address}   a page, which asks for the token
  Token     ${token}

  More credits for the demo's account, and what it has then:

curl ${address}/accounts/demo/grants -H 'authorization: Bearer ${token}' \\
  -H 'content-type: application/json' -d '{"id":"top-up-1","amount":"20.00"}'

curl ${address}/accounts/demo -H 'authorization: Bearer ${token}'
`);
});

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
