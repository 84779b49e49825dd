import * as v from 'valibot';

import { MAX_END_USER_LENGTH } from '../ledger/contract/key-records.ts';
import { MAX_ORIGINS, MAX_TTL_MS } from '../keys/sessions.ts';
import { type Endpoint, endpoint, nothing } from './endpoint.ts';
import { accountNotFound, ConflictError, NotFoundError } from '../json-api/errors.ts';
import { markup, modelPatterns, requirements } from '../json-api/key-schemas.ts';
import { accountId, amount, at, component, described, integer, object, textOf } from '../json-api/schema.ts';

/** Sessions: keys for minutes, which a web page may hold. */

const ORIGINS_WANTED = `1 to ${MAX_ORIGINS} origins, such as ["https://chat.example.com"]`;

const newSession = component(
  'NewSession',
  'What a session may do, and for how long.',
  object({
    user: v.exactOptional(textOf(1, MAX_END_USER_LENGTH)),
    models: v.exactOptional(modelPatterns),
    require: v.exactOptional(requirements),
    markup: v.exactOptional(markup),
    max_spend: amount,
    ttl_ms: integer(1, MAX_TTL_MS),
    origins: described(
      ORIGINS_WANTED,
      v.pipe(
        v.array(v.string(ORIGINS_WANTED), ORIGINS_WANTED),
        v.minLength(1, ORIGINS_WANTED),
        v.maxLength(MAX_ORIGINS, ORIGINS_WANTED),
      ),
    ),
  }),
);

const createdSession = component(
  'CreatedSession',
  'A session: the API key for the page, and its ID as a key of the account.',
  v.object({ session: v.string(), id: v.string(), expires_at: at }),
);

const sessionToRevoke = component(
  'SessionToRevoke',
  'A session, as the page has it.',
  object({ session: textOf(1, 4096) }),
);

const revokedSession = component(
  'RevokedSession',
  'A session that can not spend any more.',
  v.object({ id: v.string(), account: v.string() }),
);

export const sessionEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'createSession',
    method: 'POST',
    path: '/accounts/{account}/sessions',
    summary: 'Create a session for a web page',
    params: object({ account: accountId }),
    query: nothing,
    body: newSession,
    answer: createdSession,
    status: 201,
    errorStatuses: [404, 409],
    change: {
      action: 'sessions.create',
      needs: 'keys',
      repeat: 'another session, with its own limit: nothing is stored before it is used.',
    },
    async run({ params: { account }, body }, { accounts, sessions }) {
      if (!(await accounts.get(account))) throw accountNotFound(account);
      const { max_spend: maxSpend, ttl_ms: ttlMs, ...rest } = body;
      const created = await withSessionErrors(() => sessions.create({ account, maxSpend, ttlMs, ...rest }));
      const { session, id, expiresAt } = created;
      return { answer: { session, id, expires_at: expiresAt.toISOString() }, target: id };
    },
  }),
  endpoint({
    operation: 'revokeSession',
    method: 'POST',
    path: '/sessions/revoke',
    summary: 'Revoke a session permanently',
    params: nothing,
    query: nothing,
    body: sessionToRevoke,
    answer: revokedSession,
    errorStatuses: [404, 409],
    change: {
      action: 'sessions.revoke',
      needs: 'keys',
      secret: 'session',
      repeat: 'the same answer: the session is revoked.',
    },
    async run({ body: { session } }, { sessions }) {
      const { id, account } = await withSessionErrors(() => sessions.revoke(session));
      return { answer: { id, account }, target: id, after: { id, account } };
    },
  }),
];

/** @throws {ConflictError} if the router has no secret for sessions; {NotFoundError} if it did not make the session */
async function withSessionErrors<Result>(call: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    // Compares codes, not classes: bundlers duplicate a class for a second entry point.
    const code: unknown = Reflect.get(Object(error), 'code');
    if (code === 'sessions_disabled') {
      throw new ConflictError(
        'sessions_disabled',
        'Sessions need the option sessions.secret of the router, which is not set.',
      );
    }
    if (code !== 'invalid_api_key') throw error;
    // The message doesn't show what was sent: it may be a secret.
    throw new NotFoundError(
      'session_not_found',
      'This is no session of this router: none of the secrets in its option sessions.secret signed it.',
    );
  }
}
