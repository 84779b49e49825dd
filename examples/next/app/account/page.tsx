import type { Metadata } from 'next';
import type { ReactNode } from 'react';
import { AccountPage } from './account-page';

export const metadata: Metadata = { title: 'Account – Parrot' };

export default function Page(): ReactNode {
  return (
    <main className="account">
      <p>
        <a href="/">← Chat</a>
      </p>
      <AccountPage />
    </main>
  );
}
