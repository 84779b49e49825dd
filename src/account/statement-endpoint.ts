import * as v from 'valibot';

import { allowanceOf } from '../ledger/contract/allowances.ts';
import type { CreditsEntry } from '../ledger/operations/journal-entries.ts';
import { type Statement, statementCsv } from '../ledger/operations/statement.ts';
import { ConflictError } from '../json-api/errors.ts';
import { inJson } from '../json-api/in-json.ts';
import { at, component, month, object, oneOf, usd, whole } from '../json-api/schema.ts';
import { type Endpoint, endpoint, nothing } from './endpoint.ts';

const ownStatement = component(
  'OwnStatement',
  'A month of the account: closing = opening + granted + adjusted - expired - charged + refunded.',
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
    charges: v.array(
      v.object({ model: v.string(), key: v.string(), requests: whole, charged: usd, refunded: usd }),
    ),
    end_users: v.array(v.object({ user: v.string(), requests: whole, charged: usd, refunded: usd })),
    credits: v.array(
      v.object({
        type: v.string(),
        at,
        amount: usd,
        balance: usd,
        allowance: v.exactOptional(v.string()),
      }),
    ),
  }),
);

export const statementEndpoint: Endpoint = endpoint({
  operation: 'getStatement',
  method: 'GET',
  path: '/statements/{month}',
  summary: 'Get the statement of a month, as JSON or CSV',
  params: object({ month }),
  query: object({ format: v.optional(oneOf(['json', 'csv'])) }),
  body: nothing,
  answer: ownStatement,
  hasCsv: true,
  needs: 'statements',
  errorStatuses: [409],
  async run({ params: { month: name }, query: { format }, caller: { account } }, { router: { credits } }) {
    const found = await credits.statement(account, name).catch((error: unknown) => {
      if (!(error instanceof Error) || error.name !== 'StatementCompactedError') throw error;
      throw new ConflictError('journal_compacted', `${error.message}.`, 'month');
    });
    const statement = found ?? emptyStatement(account, name);
    const shown = { ...statement, credits: statement.credits.map(withoutNotes) };
    return { answer: statementAnswer(shown), ...(format === 'csv' && { csv: statementCsv(shown) }) };
  },
});

/** Ids may be those of payments, and reasons are the operator's notes. */
function withoutNotes({ type, at: time, id, amount, balance, position }: CreditsEntry): CreditsEntry {
  return { type, at: time, id: allowanceOf(id) ?? '', amount, balance, position };
}

function statementAnswer(statement: Statement) {
  const { credits, charges, endUsers } = statement;
  return {
    ...inJson(statement, SUMS),
    charges: [...charges],
    end_users: [...endUsers],
    credits: credits.map(({ type, at: time, amount, balance, id }) => ({
      type,
      at: time.toISOString(),
      amount,
      balance,
      ...(id !== '' && { allowance: id }),
    })),
  };
}

const SUMS = [
  'account',
  'month',
  'from',
  'to',
  'opening',
  'granted',
  'adjusted',
  'expired',
  'charged',
  'refunded',
  'closing',
];

/** Of an account that has had no grant and no key yet. */
function emptyStatement(account: string, name: string): Statement {
  const from = new Date(`${name}-01T00:00:00Z`);
  const to = new Date(from);
  to.setUTCMonth(to.getUTCMonth() + 1);
  const zero = '0.00';
  return {
    account,
    month: name,
    from,
    to,
    opening: zero,
    granted: zero,
    adjusted: zero,
    expired: zero,
    charged: zero,
    refunded: zero,
    closing: zero,
    writtenOff: zero,
    charges: [],
    endUsers: [],
    credits: [],
  };
}
