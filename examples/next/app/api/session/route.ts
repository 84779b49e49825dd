/** A session for the page of who is signed in: a key for minutes, which the browser may hold. */
import { ACCOUNT, MODEL, router } from '../../../lib/router';

export function POST(request: Request): Response {
  const origin = request.headers.get('origin');
  // In your app, a reverse proxy may change the host: compare with your own address.
  if (origin === null || !URL.canParse(origin) || new URL(origin).host !== request.headers.get('host')) {
    return new Response('only pages of this site get a session', { status: 403 });
  }
  const { session, expiresAt } = router.sessions.create({
    account: ACCOUNT,
    models: [MODEL],
    maxSpend: '0.20',
    ttlMs: 15 * 60_000,
    origins: [origin],
  });
  return Response.json({ session, expiresAt });
}
