/** The API, for everybody with a key. */
import { toNextHandlers } from 'chat-completions-router/next';
import { router } from '../../../lib/router';

export const { GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS } = toNextHandlers(router);
