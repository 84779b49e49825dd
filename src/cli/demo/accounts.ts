import type { ChatCompletionsRouter } from '../../router/router.ts';
import { banner, type DemoAccount } from './banner.ts';
import type { DemoProviders } from './providers.ts';

/**
 * Creates an account with $5.00 and one with almost nothing, which shows what the router does then, and prints both
 * with commands to paste.
 *
 * @param baseURL - where the router is mounted, as `http://127.0.0.1:8787/v1`
 */
export async function announce(
  router: ChatCompletionsRouter,
  { baseURL, models }: { readonly baseURL: string } & Pick<DemoProviders, 'models'>,
): Promise<void> {
  const account = await openAccount(router, 'demo', '5.00');
  const poorAccount = await openAccount(router, 'demo-poor', '0.0001');
  console.log(banner({ baseURL, account, poorAccount, models }));
}

async function openAccount(
  router: ChatCompletionsRouter,
  account: string,
  amount: string,
): Promise<DemoAccount> {
  // The first key, or the first credits, create the account.
  const { key } = await router.keys.create({ account, name: 'demo' });
  await router.credits.grant(account, amount, { id: 'welcome' }); // the same id again grants nothing
  const { balance } = await router.credits.balance(account);
  return { apiKey: key, balance };
}
