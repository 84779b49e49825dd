import * as v from 'valibot';

import type { CreditsChange } from '../ledger/operations/credits.ts';
import type { CreditsEntry } from '../ledger/operations/journal-entries.ts';
import { type Statement, statementCsv } from '../ledger/operations/statement.ts';
import { type Endpoint, endpoint, list, nothing, type OperationResult } from './endpoint.ts';
import { ConflictError, accountNotFound, NotFoundError } from '../json-api/errors.ts';
import {
  accountId,
  amount,
  at,
  balanceAfter,
  component,
  delta,
  described,
  durable,
  flag,
  integer,
  integerInQuery,
  month,
  object,
  oneOf,
  paymentId,
  recreate,
  textOf,
  time,
  usd,
  whole,
} from '../json-api/schema.ts';
import { type ChangeId, resolveChangeId } from '../json-api/idempotency.ts';
import { inJson } from '../json-api/in-json.ts';

const newGrant = component(
  'NewGrant',
  'Credits for an account, which is created if needed. An id, such as a payment’s, or an Idempotency-Key prevents a second grant.',
  object({
    id: v.optional(paymentId),
    amount,
    expires_at: v.optional(time),
    priority: v.optional(integer(0, 100)),
    recreate: v.optional(recreate),
  }),
);

const newAdjustment = component(
  'NewAdjustment',
  'A correction of a balance, up or down. The balance can not go below 0, or below what the credit limit allows, except with force: true, which freezes the account.',
  object({ id: v.optional(paymentId), delta, reason: textOf(1, 500), force: v.optional(flag()) }),
);

const creditsChange = component(
  'CreditsChange',
  'A grant or an adjustment of the account. duplicate: true means that an earlier request made it.',
  v.object({
    id: v.string(),
    account: v.string(),
    available: balanceAfter,
    duplicate: v.boolean(),
    durable: v.optional(durable),
  }),
);

const grants = component(
  'Grants',
  'What is left of the grants of an account, in the order in which it is spent.',
  v.object({
    object: v.literal('list'),
    data: v.array(
      v.object({
        id: v.string(),
        amount: usd,
        remaining: usd,
        priority: whole,
        expires_at: v.optional(at),
        allowance: v.optional(described('the allowance that granted it', v.string())),
      }),
    ),
  }),
);

const journalEntry = component(
  'JournalEntry',
  'A change of a balance.',
  v.object({
    position: whole,
    type: v.picklist([
      'grant',
      'charge',
      'late_charge',
      'orphan_charge',
      'expired_hold',
      'expired_credit',
      'adjustment',
      'refund',
    ]),
    at,
    id: v.string(),
    request_id: v.optional(
      described('the x-request-id of the request; missing for a change that is about none', v.string()),
    ),
    amount: usd,
    balance: usd,
    held: v.optional(usd),
    written_off: v.optional(usd),
    key: v.optional(v.string()),
    model: v.optional(v.string()),
    usage: v.optional(
      v.object({
        prompt_tokens: whole,
        cached_tokens: whole,
        completion_tokens: whole,
        reasoning_tokens: whole,
        source: v.picklist(['upstream', 'estimated', 'none']),
        cost: v.optional(usd),
        price: v.string(),
        ending: v.string(),
        provider: v.optional(v.string()),
        upstream_model: v.optional(v.string()),
        first_byte_ms: v.optional(v.number()),
        duration_ms: v.optional(v.number()),
        finish_reason: v.optional(v.string()),
        streamed: v.optional(v.boolean()),
        cache_write_tokens: v.optional(whole),
        web_searches: v.optional(whole),
        byok: v.optional(v.boolean()),
      }),
    ),
    dimensions: v.optional(v.record(v.string(), v.string())),
    reason: v.optional(v.string()),
  }),
);

const journal = component(
  'Journal',
  'Entries, oldest first. next_after is the position to continue after, null on the last page.',
  v.object({ object: v.literal('list'), data: v.array(journalEntry), next_after: v.nullable(whole) }),
);

const statement = component(
  'Statement',
  'A month of an account: closing = opening + granted + adjusted - expired - charged + refunded.',
  v.object({
    account: v.string(),
    month: v.string(),
    from: at,
    to: at,
    opening: usd,
    granted: usd,
    adjusted: usd,
    expired: usd,
    charged: usd,
    refunded: usd,
    closing: usd,
    written_off: usd,
    charges: v.array(
      v.object({ model: v.string(), key: v.string(), requests: whole, charged: usd, refunded: usd }),
    ),
    end_users: v.array(v.object({ user: v.string(), requests: whole, charged: usd, refunded: usd })),
    credits: v.array(journalEntry),
  }),
);

const params = object({ account: accountId });

const REPEAT =
  '200 with duplicate: true, and the balance is not changed again; with another body 409 idempotency_key_reused (id_already_used, if the body has an id).';

export const creditsEndpoints: readonly Endpoint[] = [
  endpoint({
    operation: 'createGrant',
    method: 'POST',
    path: '/accounts/{account}/grants',
    summary: 'Add credits to an account',
    params,
    query: nothing,
    body: newGrant,
    answer: creditsChange,
    status: 201,
    errorStatuses: [409],
    change: { action: 'grants.create', needs: 'credits', repeat: REPEAT },
    async run({ params: { account }, body, idempotencyKey }, { credits }) {
      const { expires_at: expiresAt, priority, recreate } = body;
      const changeId = resolveChangeId(body.id, idempotencyKey);
      const change = credits.grant(account, body.amount, {
        id: changeId.id,
        ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
        ...(priority !== undefined && { priority }),
        ...(recreate !== undefined && { recreate }),
      });
      return await changeResult(change, account, changeId);
    },
  }),
  endpoint({
    operation: 'listGrants',
    method: 'GET',
    path: '/accounts/{account}/grants',
    summary: 'List what is left of the grants of an account, and when it expires',
    params,
    query: nothing,
    body: nothing,
    answer: grants,
    errorStatuses: [404],
    async run({ params: { account } }, { accounts, credits }) {
      const lots = await credits.lots(account);
      if (lots.length === 0 && !(await accounts.get(account))) throw accountNotFound(account);
      return { answer: list(lots.map((lot) => inJson(lot))) };
    },
  }),
  endpoint({
    operation: 'createAdjustment',
    method: 'POST',
    path: '/accounts/{account}/adjustments',
    summary: 'Correct a balance, up or down',
    params,
    query: nothing,
    body: newAdjustment,
    answer: creditsChange,
    status: 201,
    errorStatuses: [404, 409],
    change: { action: 'adjustments.create', needs: 'credits', repeat: REPEAT },
    async run({ params: { account }, body, idempotencyKey }, { credits }) {
      const changeId = resolveChangeId(body.id, idempotencyKey);
      const { delta: amountChange, reason, force } = body;
      const change = credits.adjust(account, amountChange, {
        id: changeId.id,
        reason,
        ...(force !== undefined && { force }),
      });
      return await changeResult(change, account, changeId);
    },
  }),
  endpoint({
    operation: 'listJournal',
    method: 'GET',
    path: '/accounts/{account}/journal',
    summary: 'List the journal of an account',
    params,
    query: object({
      after: v.optional(integerInQuery(0, Number.MAX_SAFE_INTEGER)),
      limit: v.optional(integerInQuery(1, 1000)),
    }),
    body: nothing,
    answer: journal,
    errorStatuses: [404],
    async run({ params: { account }, query: { after = 0, limit = 100 } }, { accounts, credits }) {
      const entries = await credits.journal(account, { after, limit });
      if (entries.length === 0 && !(await accounts.get(account))) throw accountNotFound(account);
      const next = entries.length === limit ? entries.at(-1)?.position : undefined;
      return { answer: { ...list(entries.map(entryAnswer)), next_after: next ?? null } };
    },
  }),
  endpoint({
    operation: 'getStatement',
    method: 'GET',
    path: '/accounts/{account}/statements/{month}',
    summary: 'Get the statement of a month, as JSON or CSV',
    params: object({ account: accountId, month }),
    query: object({ format: v.optional(oneOf(['json', 'csv'])) }),
    body: nothing,
    answer: statement,
    hasCsv: true,
    errorStatuses: [404, 409],
    async run({ params: { account: id, month: name }, query: { format } }, { credits }) {
      const found = await credits.statement(id, name).catch((error: unknown) => {
        if (!(error instanceof Error) || error.name !== 'StatementCompactedError') throw error;
        throw new ConflictError('journal_compacted', `${error.message}.`, 'month');
      });
      if (!found) throw accountNotFound(id);
      return { answer: statementAnswer(found), ...(format === 'csv' && { csv: statementCsv(found) }) };
    },
  }),
];

/** @throws {ConflictError} naming why the change was rejected; {NotFoundError} if there is no such account */
async function changeResult(
  change: Promise<CreditsChange>,
  account: string,
  { id, isDerived }: ChangeId,
): Promise<OperationResult<v.InferOutput<typeof creditsChange>>> {
  const made = await change.catch((error: unknown) => {
    throw toConflictError(error, account, isDerived);
  });
  return { answer: { id, account, ...made }, target: id, repeated: made.duplicate };
}

/** Compares names, not classes: bundlers duplicate a class for a second entry point. */
export function toConflictError(error: unknown, account: string, isDerived: boolean): unknown {
  if (!(error instanceof Error) || error.name !== 'CreditsConflictError') return error;
  const { message } = error;
  switch (Reflect.get(error, 'code')) {
    case 'conflict':
      return isDerived
        ? new ConflictError(
            'idempotency_key_reused',
            `This Idempotency-Key was used for another change of account ${account}. Nothing was changed.`,
          )
        : new ConflictError('id_already_used', `${message}.`, 'id');
    case 'no_account':
      return accountNotFound(account);
    case 'below_floor':
      return new ConflictError('balance_too_low', `${message}.`, 'delta');
    case 'too_big':
      return new ConflictError('balance_too_large', `${message}.`);
    case 'too_many_lots':
      return new ConflictError('too_many_grants', `${message}.`);
    case 'no_allowance':
      return new NotFoundError('allowance_not_found', `${message}.`);
    case 'too_many_allowances':
      return new ConflictError('too_many_allowances', `${message}.`);
    case 'ended':
      return new ConflictError('allowance_ended', `${message}.`, 'until');
    case 'not_settled':
      return new ConflictError('not_settled', `${message}.`);
    case 'more_than_charged':
      return new ConflictError('more_than_charged', `${message}.`, 'amount');
    default:
      return error;
  }
}

function statementAnswer({
  credits,
  charges,
  endUsers,
  ...sums
}: Statement): v.InferOutput<typeof statement> {
  return {
    ...inJson(sums),
    charges: [...charges],
    end_users: [...endUsers],
    credits: credits.map(entryAnswer),
  };
}

function entryAnswer({ usage, ...entry }: CreditsEntry): v.InferOutput<typeof journalEntry> {
  return { ...inJson(entry), ...(usage && { usage: inJson(usage) }) };
}
