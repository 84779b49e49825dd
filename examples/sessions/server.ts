/**
 * Your own users instead of API keys: browsers with a session cookie, programs with a JSON Web Token.
 *
 *     npm run example -- sessions
 */
import { randomBytes } from 'node:crypto';
import { createChatCompletionsRouter } from 'chat-completions-router';
import express from 'express';
import { listening, models, port, providers } from '../demo/demo.ts';
import { signToken, verifyToken } from './jwt.ts';

const secret = process.env['JWT_SECRET'] ?? randomBytes(32).toString('hex');
/** Session id → account. In your app: wherever its sessions are. */
const sessions = new Map<string, string>();

const router = createChatCompletionsRouter({
  store: 'memory:',
  providers,
  models,
  authenticate: (credential) => {
    const account = sessions.get(credential) ?? verifyToken(credential, secret)?.sub;
    return account === undefined ? undefined : { account };
  },
  keyCacheMs: 5_000, // an expired token is believed for so long at most
});

const app = express();

// Whoever signs in has an account, and $1.00 the first time. In your app: with a password, to begin with.
app.post('/sign-in', express.json(), async (request, response) => {
  const { user }: { user?: unknown } = request.body ?? {};
  if (typeof user !== 'string' || !/^\w{1,40}$/.test(user)) {
    response.status(400).json({ error: 'user must be 1 to 40 letters, digits or underscores' });
    return;
  }
  await router.credits.grant(user, '1.00', { id: `welcome-${user}` }); // the same id again grants nothing
  const session = randomBytes(32).toString('base64url');
  sessions.set(session, user);
  response.cookie('session', session, { httpOnly: true, sameSite: 'strict', secure: request.secure });
  response.json({ token: signToken({ sub: user, exp: Math.floor(Date.now() / 1000) + 900 }, secret) });
});

app.post('/sign-out', (request, response) => {
  const session = sessionOf(request.headers.cookie);
  if (session !== undefined) {
    sessions.delete(session);
    router.keys.forget(session); // at once, not after keyCacheMs
  }
  response.clearCookie('session').sendStatus(204);
});

// The router reads `Authorization`: what else says who it is goes there.
app.use('/v1', (request, _response, next) => {
  const session = sessionOf(request.headers.cookie);
  if (session !== undefined) request.headers.authorization ??= `Bearer ${session}`;
  next();
});
app.use('/v1', router);

function sessionOf(cookies = ''): string | undefined {
  return /(?:^|; )session=([^;]+)/.exec(cookies)?.[1];
}

const server = app.listen(port, '127.0.0.1', (error) => {
  if (error) throw error;
  const address = `http://localhost:${listening(server)}`;
  console.log(`
  Sign in, get a token, ask:

token=$(curl -s ${address}/sign-in -H 'content-type: application/json' -d '{"user":"ada"}' | cut -d'"' -f4)
curl -N ${address}/v1/chat/completions -H "authorization: Bearer $token" -H 'content-type: application/json' \\
  -d '{"model":"demo/parrot","stream":true,"messages":[{"role":"user","content":"Good morning"}]}'

  Ctrl-C ends it.
`);
});

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
