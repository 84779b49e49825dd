/** What the account has left, for the page of who is signed in; `/v1/credits` says what the page's session may spend. */
import { ACCOUNT, router } from '../../../lib/router';

export async function GET(): Promise<Response> {
  const { balance } = await router.credits.balance(ACCOUNT);
  return Response.json({ balance });
}
