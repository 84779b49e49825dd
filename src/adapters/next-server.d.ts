/** The type of `next/server.js` that we use: Next's own types would make `NODE_ENV` a required variable in this
 * repository's environment types.
 */
export const after: ((task: Promise<unknown>) => void) | undefined;
