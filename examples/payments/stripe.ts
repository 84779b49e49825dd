import { createHmac, timingSafeEqual } from 'node:crypto';

/** What we read of an event. */
export interface PaymentEvent {
  readonly id: string;
  readonly type: string;
  readonly data: {
    readonly object: {
      readonly amount_total: number;
      readonly currency: string;
      readonly payment_status: string;
      /** What we said when the payment was begun. */
      readonly metadata: { readonly account?: string };
    };
  };
}

const TOLERANCE_S = 300;

/**
 * An event that the payment provider signed, as Stripe does: HMAC-SHA-256 over its time and its bytes.
 *
 * @throws {Error} if it is not, or is too old
 */
export function readEvent(body: unknown, header: string, secret: string): PaymentEvent {
  if (!Buffer.isBuffer(body)) throw new Error('no body');
  const [, time = ''] = /(?:^|,)t=(\d+)/.exec(header) ?? [];
  const [, hex = ''] = /(?:^|,)v1=([0-9a-f]{64})/.exec(header) ?? [];
  const given = Buffer.from(hex, 'hex');
  const right = signatureOf(body, time, secret);
  if (given.length !== right.length || !timingSafeEqual(given, right)) throw new Error('wrong signature');
  if (Math.abs(Date.now() / 1000 - Number(time)) > TOLERANCE_S) throw new Error('too old');
  return JSON.parse(body.toString());
}

/** What the payment provider sends as `stripe-signature`. */
export function signEvent(body: string, secret: string, time = Math.floor(Date.now() / 1000)): string {
  return `t=${time},v1=${signatureOf(Buffer.from(body), String(time), secret).toString('hex')}`;
}

function signatureOf(body: Buffer, time: string, secret: string): Buffer {
  return createHmac('sha256', secret).update(`${time}.`).update(body).digest();
}
