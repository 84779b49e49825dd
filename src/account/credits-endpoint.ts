import * as v from 'valibot';

import { ALLOWANCE_PERIODS } from '../ledger/contract/allowances.ts';
import type { CreditLot } from '../ledger/operations/credits.ts';
import type { AllowanceInfo } from '../ledger/operations/allowances.ts';
import { inJson } from '../json-api/in-json.ts';
import { accountLimits, ownPolicy, ownPolicyAnswer } from '../json-api/key-schemas.ts';
import { at, component, described, flag, usd } from '../json-api/schema.ts';
import { type Endpoint, endpoint, nothing } from './endpoint.ts';

const credits = component(
  'Credits',
  'The credits of the account: what there is, and what ends when.',
  v.object({
    account: v.string(),
    balance: usd,
    held: described('for requests that are running', v.string()),
    spent: usd,
    granted: usd,
    expired: usd,
    credit_limit: described('the balance can be spent down to minus this', v.string()),
    frozen: described('new requests are refused', flag()),
    policy: v.exactOptional(ownPolicy),
    limits: v.exactOptional(accountLimits),
    grants: described(
      'what is left of each, in the order in which it is spent',
      v.array(
        v.object({
          amount: usd,
          remaining: usd,
          expires_at: described('null: it does not expire', v.nullable(at)),
          allowance: described('the allowance that granted it', v.nullable(v.string())),
        }),
      ),
    ),
    allowances: v.array(
      v.object({
        id: v.string(),
        amount: described('of the next period, in USD', v.string()),
        granted: described('of this period, in USD', v.string()),
        remaining: usd,
        per: v.picklist(ALLOWANCE_PERIODS),
        resets_at: at,
        until: v.exactOptional(at),
      }),
    ),
  }),
);

export const creditsEndpoint: Endpoint = endpoint({
  operation: 'getCredits',
  method: 'GET',
  path: '/credits',
  summary: 'Get the credits of the account',
  params: nothing,
  query: nothing,
  body: nothing,
  answer: credits,
  async run({ caller: { account } }, { router: { accounts, credits: books } }) {
    const [found, lots, allowances] = await Promise.all([
      accounts.get(account),
      books.lots(account),
      books.allowances(account),
    ]);
    const { balance, held, spent, granted, expired, creditLimit, frozen, policy, limits } =
      found ?? NO_ACCOUNT;
    const sums = { account, balance, held, spent, granted, expired, creditLimit, frozen };
    return {
      answer: {
        ...inJson(sums),
        ...(limits && { policy: ownPolicyAnswer(policy), limits: inJson(limits) }),
        grants: lots.map(grantAnswer),
        allowances: allowances.map(allowanceAnswer),
      },
    };
  },
});

/** Of an account that has had no grant and no key yet. */
const NO_ACCOUNT = {
  balance: '0.00',
  held: '0.00',
  spent: '0.00',
  granted: '0.00',
  expired: '0.00',
  creditLimit: '0.00',
  frozen: false,
  policy: {},
  limits: undefined,
};

/** Without its id, which may be that of a payment. */
function grantAnswer({ amount, remaining, expiresAt, allowance }: CreditLot) {
  return {
    amount,
    remaining,
    expires_at: expiresAt?.toISOString() ?? null,
    allowance: allowance ?? null,
  };
}

function allowanceAnswer({ id, amount, granted, remaining, per, resetsAt, until }: AllowanceInfo) {
  return {
    id,
    amount,
    granted,
    remaining,
    per,
    resets_at: resetsAt.toISOString(),
    ...(until && { until: until.toISOString() }),
  };
}
