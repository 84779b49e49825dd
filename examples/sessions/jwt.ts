import { createHmac, timingSafeEqual } from 'node:crypto';

export interface Claims {
  /** The account that pays. */
  readonly sub: string;
  /** When it expires, in Unix seconds. */
  readonly exp: number;
}

const HEADER = Buffer.from('{"alg":"HS256","typ":"JWT"}').toString('base64url');

/** A JSON Web Token, signed with HMAC-SHA-256. */
export function signToken(claims: Claims, secret: string): string {
  const signed = `${HEADER}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  return `${signed}.${signatureOf(signed, secret).toString('base64url')}`;
}

/** The claims of a token that we signed and that hasn't expired; of no other, whatever algorithm it names. */
export function verifyToken(token: string, secret: string): Claims | undefined {
  const [header, payload = '', signature = '', ...more] = token.split('.');
  if (header !== HEADER || more.length > 0) return undefined;
  const given = Buffer.from(signature, 'base64url');
  const right = signatureOf(`${header}.${payload}`, secret);
  if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
  const claims: Claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
  return claims.exp > Date.now() / 1000 ? claims : undefined;
}

function signatureOf(signed: string, secret: string): Buffer {
  return createHmac('sha256', secret).update(signed).digest();
}
