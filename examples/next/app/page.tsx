import type { ReactNode } from 'react';
import { ACCOUNT, MODEL, router } from '../lib/router';
import { Chat } from './chat';

export const dynamic = 'force-dynamic'; // the balance is another one each time

export default async function Page(): Promise<ReactNode> {
  const { balance } = await router.credits.balance(ACCOUNT);
  return <Chat model={MODEL} balanceAtStart={balance} />;
}
