/**
 * What we use of `next/server.js`, for the compiler: Next's own types would make `NODE_ENV` a required variable of
 * every environment in this repository.
 */
export const after: ((task: Promise<unknown>) => void) | undefined;
