/** The API of the account page. */
import { toNextHandlers } from 'chat-completions-router/next';
import { account } from '../../../../lib/account';

export const { GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS } = toNextHandlers(account);
