import { setTimeout } from 'node:timers/promises';

import { LATE_ROWS_MS } from '../../ledger/contract/request-log.ts';
import { idAt } from '../../request-log/search.ts';
import { AccountBusyError, createAccounts } from '../../ledger/operations/accounts.ts';
import { createCredits } from '../../ledger/operations/credits.ts';
import { ALLOWANCE_PERIODS, ROLLOVERS } from '../../ledger/contract/allowances.ts';
import { statementCsv } from '../../ledger/operations/statement.ts';
import { table } from '../terminal/table.ts';
import {
  amountColumn,
  changeNotes,
  date,
  NotFoundError,
  required,
  type StoreCommand,
  usd,
  UsageError,
  wholeNumber,
} from './command.ts';

export const allowCommand: StoreCommand = {
  name: 'credits allow',
  summary: 'Grant credits again in each period (to an account that is created, if needed), or change that',
  store: 'may-be-new',
  positionals: 'ACCOUNT AMOUNT',
  options: {
    id: {
      value: 'ID',
      isRequired: true,
      help: 'id of the allowance, such as a plan; names it when it changes',
    },
    per: { value: 'PERIOD', isRequired: true, choices: ALLOWANCE_PERIODS, help: 'length of a period' },
    anchor: {
      value: 'DATE',
      help: 'a time at which a period begins; default: the first of the month, Monday, midnight',
    },
    rollover: { value: 'RULE', choices: ROLLOVERS, help: 'what becomes of the unused rest; default: none' },
    priority: { value: 'N', help: '0 to 100, lower is used first; default: 50' },
    until: { value: 'DATE', help: 'no period begins at or after this time; default: none' },
    prorate: { help: 'change the current period too, in proportion; default: from the next one on' },
  },
  examples: [
    'credits allow acme 20.00 --id pro --per month',
    'credits allow acme 50.00 --id pro --per month --prorate',
  ],
  async run(invocation) {
    const { positionals, options, store, print } = invocation;
    const [account = '', amount = ''] = positionals;
    const { anchor, until, priority } = options;
    const per = ALLOWANCE_PERIODS.find((each) => each === options['per']);
    const rollover = ROLLOVERS.find((each) => each === options['rollover']);
    if (!per) throw new UsageError(`--per must be one of ${ALLOWANCE_PERIODS.join(', ')}`);
    const change = await createCredits(store).allow(account, {
      id: required(invocation, 'id'),
      amount,
      per,
      ...(anchor !== undefined && { anchor: date(anchor, '--anchor') }),
      ...(rollover && { rollover }),
      ...(priority !== undefined && { priority: wholeNumber(priority, '--priority') }),
      ...(until !== undefined && { until: date(until, '--until') }),
      ...(options['prorate'] !== undefined && { change: 'prorate' }),
    });
    const { available, resetsAt } = change;
    print(`${account}: ${usd(available)} available, resets ${resetsAt.toISOString()}${changeNotes(change)}`, {
      account,
      ...change,
    });
    return change.durable !== false;
  },
};

export const allowancesCommand: StoreCommand = {
  name: 'credits allowances',
  summary: 'List the allowances of an account',
  store: 'exists',
  positionals: 'ACCOUNT',
  options: {},
  printsRows: true,
  examples: ['credits allowances acme'],
  async run({ positionals: [account = ''], store, list }) {
    const rows = await createCredits(store).allowances(account);
    await list({
      columns: [
        'id',
        amountColumn('amount'),
        'per',
        amountColumn('remaining'),
        'rollover',
        'resetsAt',
        'until',
      ],
      rows,
      none: 'no allowances',
    });
    return true;
  },
};

export const endAllowanceCommand: StoreCommand = {
  name: 'credits end',
  summary: 'End an allowance at the end of its period, or now',
  store: 'exists',
  positionals: 'ACCOUNT ID',
  options: { now: { help: 'end it now: its unused rest expires' } },
  examples: ['credits end acme pro', 'credits end acme pro --now'],
  async run({ positionals: [account = '', id = ''], options: { now }, store, print }) {
    const at = now === undefined ? 'period_end' : 'now';
    const ended = await createCredits(store).endAllowance(account, id, { at });
    print(`${account}: ${usd(ended.available)} available${changeNotes(ended)}`, { account, id, ...ended });
    return ended.durable !== false;
  },
};

export const creditLimitCommand: StoreCommand = {
  name: 'credits limit',
  summary: 'Set how much an account may owe',
  store: 'exists',
  positionals: 'ACCOUNT AMOUNT',
  options: {},
  examples: ['credits limit acme 100.00', 'credits limit acme 0'],
  async run({ positionals: [account = '', amount = ''], store, print }) {
    const change = await createCredits(store).setCreditLimit(account, amount);
    const { creditLimit, previous } = change;
    const line = `${account}: may owe ${usd(creditLimit)}, before ${usd(previous)}${changeNotes(change)}`;
    print(line, { account, ...change });
    return change.durable !== false;
  },
};

export const refundCommand: StoreCommand = {
  name: 'credits refund',
  summary: 'Refund a request by its id, once',
  store: 'exists',
  positionals: 'REQUEST',
  options: {
    reason: { value: 'TEXT', isRequired: true, help: 'stored in the journal' },
    account: { value: 'ACCOUNT', help: 'account of the request; without it all accounts are searched' },
    amount: { value: 'AMOUNT', help: 'at most what it was charged; default: all of it' },
  },
  examples: ["credits refund 0mcxr1a2bgate000001 --reason 'broken answer' --account acme"],
  async run(invocation) {
    const { positionals, options, store, print } = invocation;
    const [requestId = ''] = positionals;
    const { account, amount } = options;
    const made = await createCredits(store).refund(requestId, {
      reason: required(invocation, 'reason'),
      ...(account !== undefined && { account }),
      ...(amount !== undefined && { amount }),
    });
    if (!made)
      throw new NotFoundError(`there is no request ${requestId}`, { requestId, error: 'no_request' });
    const line = `${made.account}: ${usd(made.amount)} refunded, ${usd(made.available)} available`;
    print(line + changeNotes(made), { requestId, ...made });
    return made.durable !== false;
  },
};

export const statementCommand: StoreCommand = {
  name: 'credits statement',
  summary: 'Show the statement of a month',
  store: 'exists',
  positionals: 'ACCOUNT MONTH',
  options: {},
  printsRows: true,
  examples: ['credits statement acme 2026-11', 'credits statement acme 2026-11 --csv > acme.csv'],
  async run({ positionals: [account = '', month = ''], options: { csv }, store, print }) {
    const found = await createCredits(store).statement(account, month);
    if (!found) {
      throw new NotFoundError(`there is no account ${account}`, { account, error: 'no_account' });
    }
    if (csv !== undefined) {
      for (const line of statementCsv(found).trimEnd().split('\r\n')) print(line, {});
      return true;
    }
    const { opening, granted, adjusted, expired, charged, refunded, closing, charges } = found;
    const sums = [opening, granted, adjusted, expired, charged, refunded, closing].map(usd);
    const lines = [
      ...table(['OPENING', 'GRANTED', 'ADJUSTED', 'EXPIRED', 'CHARGED', 'REFUNDED', 'CLOSING'], [sums]),
      ...(charges.length === 0
        ? []
        : table(
            ['MODEL', 'KEY', 'REQUESTS', 'CHARGED', 'REFUNDED'],
            charges.map((each) => [
              each.model,
              each.key,
              String(each.requests),
              usd(each.charged),
              usd(each.refunded),
            ]),
          )),
    ];
    print(lines.join('\n'), found);
    return true;
  },
};

export const deleteAccountCommand: StoreCommand = {
  name: 'delete',
  summary: 'Delete an account; its sums stay, under an id that says nothing of it',
  store: 'exists',
  positionals: 'ACCOUNT',
  options: {},
  examples: ['delete acme'],
  async run({ positionals: [account = ''], store, print, progress }) {
    const deleted = await createAccounts(store)
      .delete(account)
      .catch((error: unknown) => {
        if (!(error instanceof AccountBusyError)) throw error;
        throw new NotFoundError(error.message, { account, error: error.code });
      });
    if (!deleted) throw new NotFoundError(`there is no account ${account}`, { account, error: 'no_account' });
    if (((await store.liveGateways?.())?.size ?? 0) > 0) {
      progress('waiting for what gateways have not logged yet …');
      await setTimeout(LATE_ROWS_MS);
      await store.requestLog?.forget(account, idAt(deleted.deletedAt.getTime()));
    }
    // Repeated, it finds no account, unless a failover has brought it back.
    const notes = changeNotes(deleted, 'after a failover, repeat the command');
    print(`${account}: deleted; its sums are ${deleted.id}${notes}`, deleted);
    return deleted.durable !== false;
  },
};
