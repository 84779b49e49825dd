'use client';

import { mountAccountPage } from 'chat-completions-router/account-page';
import { type ReactNode, useEffect, useRef } from 'react';

/** The account page in an element; its colors are custom properties in style.css. */
export function AccountPage(): ReactNode {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!element.current) return undefined;
    const mounted = mountAccountPage(element.current, {
      api: '/api/account',
      title: 'Parrot',
      signIn: 'session', // of this site: no API key is asked for
    });
    return () => mounted.unmount();
  }, []);
  return <div ref={element} className="account-page" />;
}
