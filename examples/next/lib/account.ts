import { createAccountRouter } from 'chat-completions-router/account';
import { ACCOUNT, router } from './router';

/** What the account page asks, for who is signed in here; in your app, `whoIs` reads your own session's cookie. */
export const account = createAccountRouter(router, {
  basePath: '/api/account',
  whoIs: () => ACCOUNT,
});
