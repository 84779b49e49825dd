import * as crypto from 'node:crypto';

import { AuthenticationError, OriginNotAllowedError } from '../errors/key-errors.ts';
import { type CreateKey, MAX_END_USER_LENGTH } from '../ledger/contract/key-records.ts';
import type { LedgerStore } from '../ledger/contract/ledger-store.ts';
import { parseUsd } from '../ledger/contract/money.ts';
import { SESSION_PREFIX } from '../ledger/contract/reserved-ids.ts';
import { checkAccount, isEndUser } from '../ledger/engine/validate-commands.ts';
import { type Markup, parseMarkup } from '../metering/markup.ts';
import { type LabelRequirements, parseRequirements, requiredLabels } from '../options/labels.ts';
import { ModelPatterns, parseModelPatterns } from '../options/model-patterns.ts';
import { assertObject, optionError } from '../options/resolve-options.ts';
import type { SessionOptions } from '../options/session-options.ts';
import { optionsObject } from '../platform/options-object.ts';
import type { Caller } from './caller.ts';
import { fromStore } from './from-store.ts';
import { MAX_SESSION_LENGTH, type SessionClaims, SessionTokens } from './session-tokens.ts';

/** Short-lived keys that a page may hold. */
export interface Sessions {
  /**
   * Makes a session. Nothing is written or read: the ledger hears of it with its first request.
   *
   * @throws {TypeError} naming the invalid member, or that the router has no `sessions.secret`
   */
  create(options: CreateSession): CreatedSession;
  /**
   * Revokes a session: it can't spend any more, in any process. Idempotent; for one that has expired nothing is written.
   * If its account doesn't exist, that is made, without credits.
   *
   * @returns whose it was
   * @throws {AuthenticationError} if the session was not made here
   */
  revoke(session: string): Promise<RevokedSession>;
}

export interface CreateSession {
  /** Who pays. */
  readonly account: string;
  /** Whom it is for, as an end user and as its name among the account's keys: at most 128 characters. */
  readonly user?: string;
  /** Patterns of the models that it may use. @default all */
  readonly models?: readonly string[];
  /** Labels of the only targets that its requests may be sent to: `{ region: 'eu' }`. @default all */
  readonly require?: LabelRequirements;
  /** Added to the prices of its requests. @default none: a key's markup is that key's alone */
  readonly markup?: Markup;
  /** The most that it can spend, in USD. */
  readonly maxSpend: string;
  /** How long it is valid, in ms: at most 86400000 (1 day). */
  readonly ttlMs: number;
  /** The origins of the pages that may use it: `['https://chat.example.com']`. */
  readonly origins: readonly string[];
}

export interface CreatedSession {
  /** The API key for the page: `ses-…`. */
  readonly session: string;
  /** Its id, as a key in usage and the journal. */
  readonly id: string;
  readonly expiresAt: Date;
}

export interface RevokedSession {
  readonly account: string;
  /** As of `CreatedSession`. */
  readonly id: string;
}

const MEMBERS: Record<keyof CreateSession, true> = {
  account: true,
  user: true,
  models: true,
  require: true,
  markup: true,
  maxSpend: true,
  ttlMs: true,
  origins: true,
};
export const MAX_TTL_MS = 86_400_000;
export const MAX_ORIGINS = 10;

/** @throws {TypeError} naming the invalid option, without showing a secret */
export function resolveSessions(options: SessionOptions | undefined): SessionTokens | undefined {
  if (options === undefined) return undefined;
  assertObject(options, 'sessions', { secret: true });
  const given: unknown = options.secret;
  const [first, ...others] = (Array.isArray(given) ? given : [given]).map(keyOf);
  if (!first) throw new TypeError('sessions.secret must be one or more secrets, got []');
  return new SessionTokens([first, ...others]);
}

function noSecret(call: string): TypeError {
  const error = new TypeError(`${call} needs the option sessions.secret of the router`);
  return Object.assign(error, { code: 'sessions_disabled' });
}

function keyOf(secret: unknown): Buffer {
  if (typeof secret === 'string' && secret.length >= 32 && secret.length <= 512) return Buffer.from(secret);
  const got = typeof secret === 'string' ? `${secret.length} characters` : typeof secret;
  throw new TypeError(`sessions.secret must be a string of 32 to 512 characters, got ${got}`);
}

export function createSessions(
  store: LedgerStore,
  tokens: SessionTokens | undefined,
  now: () => number,
): Sessions {
  return {
    create: (options) => {
      if (!tokens) throw noSecret('sessions.create');
      const claims = parseSession(options, now());
      const session = tokens.sign(claims);
      if (session.length > MAX_SESSION_LENGTH) {
        throw new TypeError(
          `A session must be at most ${MAX_SESSION_LENGTH} characters, got ${session.length}: give it fewer models or origins`,
        );
      }
      return { session, id: claims.id, expiresAt: new Date(claims.expiresAt) };
    },
    revoke: async (session) => {
      if (!tokens) throw noSecret('sessions.revoke');
      const claims = tokens.read(session);
      const { account, id } = claims;
      if (now() >= claims.expiresAt) return { account, id };
      await fromStore(async () => {
        // Also for an account that is made later: then the session must not work.
        await store.createKey({ ...keyOfSession(claims, session), mustExist: false });
        await store.revokeKey(account, id);
      });
      return { account, id };
    },
  };
}

/**
 * The caller of a session.
 *
 * @throws {AuthenticationError} if it was not made here, or has expired
 * @throws {OriginNotAllowedError} on a page of another origin
 */
export function callerOfSession(
  session: string,
  origin: string | undefined,
  tokens: SessionTokens,
  now: number,
): Caller {
  const claims = tokens.read(session);
  if (now >= claims.expiresAt) throw new AuthenticationError('expired_api_key');
  if (origin !== undefined && !claims.origins.includes(origin)) throw new OriginNotAllowedError();
  const { account, id, models, require, markup, user } = claims;
  return {
    account,
    key: id,
    externalKey: false,
    session: keyOfSession(claims, session),
    ...(user !== undefined && { endUser: user }),
    ...(models && { models: new ModelPatterns(models) }),
    ...(require && { require: requiredLabels(require, 'key') }),
    ...(markup && { markup }),
  };
}

/** The key that stands for a session in the ledger: recorded with its first request, or when it is revoked. */
function keyOfSession(claims: SessionClaims, session: string): CreateKey {
  const { account, id, user, maxSpend, expiresAt } = claims;
  return {
    account,
    key: id,
    hash: crypto.hash('sha256', session, 'hex'),
    name: user ?? 'session',
    limits: { budgets: [{ amount: parseUsd(maxSpend, 'maxSpend'), per: 'lifetime' }] },
    expiresAt,
    mustExist: true,
  };
}

function parseSession(options: CreateSession, now: number): SessionClaims {
  optionsObject(options, MEMBERS);
  const { account, user, models, require, markup, maxSpend, ttlMs, origins } = options;
  checkAccount(account);
  if (user !== undefined && !isEndUser(user)) {
    throw optionError('user', `a text of 1 to ${MAX_END_USER_LENGTH} characters`, user);
  }
  if (markup !== undefined) parseMarkup(markup, 'markup');
  if (parseUsd(maxSpend, 'maxSpend') <= 0n)
    throw new TypeError(`maxSpend must be more than 0, got ${maxSpend}`);
  if (!Number.isSafeInteger(ttlMs) || ttlMs < 1 || ttlMs > MAX_TTL_MS) {
    throw optionError('ttlMs', `an integer from 1 to ${MAX_TTL_MS}`, ttlMs);
  }
  const isList = Array.isArray(origins) && origins.length > 0 && origins.length <= MAX_ORIGINS;
  if (!isList || !origins.every(isOrigin)) {
    throw optionError('origins', `1 to ${MAX_ORIGINS} origins, as ["https://chat.example.com"]`, origins);
  }
  return {
    id: SessionTokens.newId(),
    account,
    ...(user !== undefined && { user }),
    ...(models !== undefined && { models: parseModelPatterns(models, 'models').patterns }),
    ...(require !== undefined && { require: parseRequirements(require, 'require') }),
    ...(markup !== undefined && { markup: { ...markup } }),
    maxSpend,
    expiresAt: now + ttlMs,
    origins: [...origins],
  };
}

function isOrigin(origin: unknown): boolean {
  return typeof origin === 'string' && URL.canParse(origin) && new URL(origin).origin === origin;
}

/** Whether an API key has the form of a session. */
export function isSession(apiKey: string): boolean {
  return apiKey.startsWith(SESSION_PREFIX);
}
