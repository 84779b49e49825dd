import type { JSX } from 'preact';

import { type Fact, Facts } from '../../../page/facts.tsx';
import { clock, date, dateOrDash, lastDays, money, nanos, periodText } from '../../../page/format.ts';
import { limitFacts } from '../../../page/keys/key-facts.tsx';
import { renewalOf } from '../../../page/renewals.ts';
import { useResource } from '../../../page/resource.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';
import type { UsageRow } from '../../../page/usage/range-usage.ts';
import type { Credits } from '../../../client/admin-api.generated.ts';
import { ViewBody } from '../view-body.tsx';
import type { ViewProps } from '../view-props.ts';
import { availableOf, type Pace, PACE_DAYS, paceOf } from './pace.ts';
import { warningsOf } from './warnings.ts';

type Allowance = Credits['allowances'][number];

const REFRESH_MS = 10_000;

interface CreditsData {
  readonly credits: Credits;
  readonly pace: Pace;
}

/** What there is to spend, what ends when, and what is renewed. */
export function CreditsView({ session, me }: ViewProps): JSX.Element {
  const { api } = session;
  const { data, at, notice } = useResource<CreditsData>(session, {
    subject: 'credits',
    everyMs: REFRESH_MS,
    async ask() {
      const now = Date.now();
      const [from = ''] = lastDays(PACE_DAYS, now);
      const [credits, usage] = await Promise.all([
        api.get<Credits>('credits'),
        // A key sees its own usage alone, which says nothing of how fast the account's credits are spent.
        me.scope === 'key' ? undefined : api.list<UsageRow>('usage', { from, group_by: 'day' }),
      ]);
      return { credits, pace: paceOf(credits, usage?.data, now) };
    },
  });
  const about = data ? `As of ${clock(at)}.` : undefined;
  return (
    <ViewBody title="Credits" about={about} notice={notice}>
      {data && (
        <>
          <Warnings {...data} />
          <Balance {...data} />
          <GrantsCard credits={data.credits} />
          <AllowancesCard allowances={data.credits.allowances} />
          <LimitsCard credits={data.credits} />
        </>
      )}
    </ViewBody>
  );
}

function Warnings({ credits, pace }: CreditsData): JSX.Element | null {
  const texts = warningsOf(credits, pace);
  return texts.length === 0 ? null : (
    <div id="warning" class="notice low" role="status">
      {texts.map((text) => (
        <p key={text}>{text}</p>
      ))}
    </div>
  );
}

function Balance({ credits, pace }: CreditsData): JSX.Element {
  const { balance, held, spent, expired, credit_limit: limit } = credits;
  const owed = -nanos(balance);
  const facts: readonly Fact[] = [
    ['In use by running requests', money(nanos(held))],
    ['Spent so far', money(nanos(spent))],
    ['Expired', nanos(expired) === 0n ? undefined : money(nanos(expired))],
    ['You owe', owed > 0n ? money(owed) : undefined],
    ['You may owe up to', nanos(limit) === 0n ? undefined : money(nanos(limit))],
  ];
  return (
    <section class="card balance" aria-labelledby="balance-title">
      <div>
        <h2 id="balance-title">Available</h2>
        <p id="balance" class={`amount ${pace.state}`}>
          {money(availableOf(credits))}
        </p>
        {pace.text !== undefined && <p class="pace">{pace.text}</p>}
      </div>
      <dl>
        {facts
          .filter(([, value]) => value !== undefined)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </section>
  );
}

function GrantsCard({ credits }: { readonly credits: Credits }): JSX.Element | null {
  const { grants, credit_limit: limit } = credits;
  // Who pays later has none.
  if (grants.length === 0 && nanos(limit) > 0n) return null;
  const head = (
    <>
      <Column>Credits</Column>
      <Column class="wide">
        <span class="unseen">Share that is left</span>
      </Column>
      <Column class="number">Left</Column>
      <Column class="number wide">Of</Column>
      <Column>Ends</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="grants-title">
      <div class="title">
        <h2 id="grants-title">What you have</h2>
        <p>Spent from the top down.</p>
      </div>
      <Table id="grant-rows" head={head}>
        {grants.map(({ amount, remaining, expires_at: ends, allowance }, i) => (
          <tr key={i}>
            <th scope="row">{allowance === null ? 'Credits' : `Allowance ${allowance}`}</th>
            <td class="wide">
              <Rest of={amount} left={remaining} />
            </td>
            <NumberCell>{money(nanos(remaining))}</NumberCell>
            <NumberCell class="wide">{money(nanos(amount))}</NumberCell>
            <td class="date">{ends === null ? 'Never' : date(ends)}</td>
          </tr>
        ))}
        {grants.length === 0 && <EmptyRow columns={5}>There are no credits at the moment.</EmptyRow>}
      </Table>
    </section>
  );
}

/** How much is left of an amount, as a bar. */
function Rest({ of, left }: { readonly of: string; readonly left: string }): JSX.Element {
  const whole = Number(nanos(of)) || 1;
  const share = Math.min(1, Math.max(0, Number(nanos(left)) / whole));
  return (
    <svg class="rest-bar" height={6} aria-hidden="true">
      <rect class="rail" width="100%" height={6} rx={3} />
      <rect class="fill" width={`${share * 100}%`} height={6} rx={3} />
    </svg>
  );
}

function AllowancesCard({ allowances }: { readonly allowances: readonly Allowance[] }): JSX.Element | null {
  if (allowances.length === 0) return null;
  const head = (
    <>
      <Column>Allowance</Column>
      <Column class="number">Amount</Column>
      <Column class="number wide">Left now</Column>
      <Column>Renewed next</Column>
      <Column class="wide">Until</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="allowances-title">
      <div class="title">
        <h2 id="allowances-title">What is renewed</h2>
      </div>
      <Table id="allowance-rows" head={head}>
        {allowances.map((each) => (
          <tr key={each.id}>
            <th scope="row">{each.id}</th>
            <NumberCell>{`${money(nanos(each.amount))} ${periodText(each.per)}`}</NumberCell>
            <NumberCell class="wide">{money(nanos(each.remaining))}</NumberCell>
            <td class="date">{dateOrDash(renewalOf(each))}</td>
            <td class="wide">{dateOrDash(each.until)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

/** The limits of all keys together; nothing where there are none. */
function LimitsCard({ credits: { policy, limits } }: { readonly credits: Credits }): JSX.Element | null {
  const facts = limitFacts({ ...policy, ...limits }).filter(([, value]) => value !== undefined);
  if (facts.length === 0) return null;
  return (
    <section class="card" aria-labelledby="limits-title">
      <div class="title">
        <h2 id="limits-title">Limits of your account</h2>
        <p>All of your keys together.</p>
      </div>
      <Facts facts={facts} />
    </section>
  );
}
