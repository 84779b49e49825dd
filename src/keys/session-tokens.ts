import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

import { AuthenticationError } from '../errors/key-errors.ts';
import { SESSION_PREFIX } from '../ledger/contract/reserved-ids.ts';
import type { Markup } from '../metering/markup.ts';
import type { LabelRequirements } from '../options/labels.ts';

/** What a session says, signed. */
export interface SessionClaims {
  /** Its id, as a key of the account. */
  readonly id: string;
  readonly account: string;
  readonly user?: string;
  /** Patterns of model IDs; undefined for all. */
  readonly models?: readonly string[];
  /** Labels of the only targets that it may use. */
  readonly require?: LabelRequirements;
  /** Added to the prices of its requests. */
  readonly markup?: Markup;
  /** USD. */
  readonly maxSpend: string;
  /** In ms since the epoch. */
  readonly expiresAt: number;
  /** Of the pages that may use it. */
  readonly origins: readonly string[];
}

/** A header that no server refuses. */
export const MAX_SESSION_LENGTH = 3000;
const SIGNATURE_LENGTH = 43;

/** Makes and reads sessions: `ses-`, base64url of JSON, a dot, and base64url of its HMAC-SHA256. */
export class SessionTokens {
  readonly #keys: readonly [Buffer, ...Buffer[]];

  /** @param keys - the first signs; all are accepted */
  constructor(keys: readonly [Buffer, ...Buffer[]]) {
    this.#keys = keys;
  }

  static newId(): string {
    return SESSION_PREFIX + randomBytes(15).toString('base64url');
  }

  sign(claims: SessionClaims): string {
    const payload = Buffer.from(JSON.stringify(claims)).toString('base64url');
    return `${SESSION_PREFIX}${payload}.${signatureOf(payload, this.#keys[0]).toString('base64url')}`;
  }

  /**
   * The claims of a session, also of one that has expired.
   *
   * @throws {AuthenticationError} unless it was signed with one of the keys
   */
  read(session: string): SessionClaims {
    const body = session.slice(SESSION_PREFIX.length);
    const [payload = '', signature = '', rest] = body.split('.');
    const given = Buffer.from(signature, 'base64url');
    const isWellFormed =
      session.length <= MAX_SESSION_LENGTH &&
      session.startsWith(SESSION_PREFIX) &&
      rest === undefined &&
      signature.length === SIGNATURE_LENGTH;
    // All are compared, so that the time says nothing of which one it was.
    const matches = this.#keys.map((key) => isWellFormed && isEqual(signatureOf(payload, key), given));
    if (!matches.includes(true)) throw new AuthenticationError('invalid_api_key');
    // The signature says that it is as it was written.
    const claims: SessionClaims = JSON.parse(Buffer.from(payload, 'base64url').toString());
    return claims;
  }
}

function isEqual(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

/** The prefix keeps a signature from meaning anything else. */
function signatureOf(payload: string, key: Buffer): Buffer {
  return createHmac('sha256', key).update(`chat-completions-router session 1 ${payload}`).digest();
}
