import { createHmac } from 'node:crypto';

import { showValue } from '../platform/show-value.ts';

/** What Standard Webhooks asks for. */
const MIN_BYTES = 24;
const MAX_BYTES = 64;

/**
 * The key of a secret in the form of Standard Webhooks: `whsec_` and base64 of 24 to 64 random bytes.
 *
 * @throws {TypeError} that does not show the secret
 */
export function parseSecret(secret: unknown, option: string): Buffer {
  const text = typeof secret === 'string' ? /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1] : undefined;
  const key = Buffer.from(text ?? '', 'base64');
  if (key.length >= MIN_BYTES && key.length <= MAX_BYTES) return key;
  const got = typeof secret === 'string' ? `a string of ${secret.length} characters` : showValue(secret);
  throw new TypeError(
    `${option} must be whsec_ and base64 of ${MIN_BYTES} to ${MAX_BYTES} random bytes, got ${got}`,
  );
}

/** The headers of Standard Webhooks, with a signature by each key. */
export function signedHeaders(
  keys: readonly Buffer[],
  { id, body, sentAt }: { readonly id: string; readonly body: string; readonly sentAt: number },
): Record<string, string> {
  const timestamp = String(Math.floor(sentAt / 1000));
  const signatures = keys.map((key) => {
    const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
    return `v1,${signature}`;
  });
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}
