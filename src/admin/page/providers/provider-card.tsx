import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { AttemptStats, ProviderStatus, ProviderTarget } from '../../../client/admin-api.generated.ts';
import { FormDialog } from '../../../page/dialog.tsx';
import { type Fact, Facts } from '../../../page/facts.tsx';
import { duration, grouped, moment, money, nanos, percent } from '../../../page/format.ts';
import { hrefOf } from '../../../page/route.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';
import { Trend } from '../usage/trend.tsx';
import { KeyTable } from './key-table.tsx';
import { LimitTable } from './limit-table.tsx';

/** Changes the provider, or with `target` one of its models. */
export type Change = (what: 'eject' | 'readmit', body: object, key?: string) => Promise<void>;

export interface ProviderCardProps {
  readonly provider: ProviderStatus;
  /** When it was read. */
  readonly at: number;
  /** Undefined if the operator may change nothing. */
  readonly change: Change | undefined;
}

export function ProviderCard({ provider, at, change }: ProviderCardProps): JSX.Element {
  const { name, state, since, recent, history, targets, errors, keys, limits } = provider;
  const id = `provider-${name}`;
  return (
    <section class="card" aria-labelledby={id}>
      <div class="title">
        <h2 id={id}>
          {name} <StateBadge thing={provider} at={at} />{' '}
          <span class="faint">{since === undefined ? '' : `since ${moment(since)}`}</span>
        </h2>
        {change && (
          <EjectButton
            provider={provider}
            isEjected={state === 'ejected'}
            change={change}
            target={undefined}
          />
        )}
      </div>
      {provider.ejection && <p class="notice">{ejectionText(provider.ejection)}</p>}
      <div class="with-trend">
        <Facts facts={[...statsFacts(name, recent), ...budgetFacts(provider)]} />
        {history.length > 1 && (
          <p class="faint">
            <Trend values={history.map(({ requests }) => requests)} /> requests a minute, the last hour
          </p>
        )}
      </div>
      <TargetTable provider={provider} at={at} change={change} />
      {limits.length > 0 && <LimitTable limits={limits} />}
      {targets.length > 0 && errors.length > 0 && <ErrorTable provider={provider} />}
      {keys.length > 0 && <KeyTable keys={keys} />}
    </section>
  );
}

function StateBadge({
  thing,
  at,
}: {
  readonly thing: Pick<ProviderStatus | ProviderTarget, 'state' | 'retry_at'>;
  readonly at: number;
}): JSX.Element {
  const { state, retry_at } = thing;
  const waitMs = state === 'ejected' && retry_at !== undefined ? Date.parse(retry_at) - at : 0;
  const kind = { healthy: 'healthy', degraded: 'low', ejected: 'ejected', unused: 'frozen' }[state];
  return (
    <>
      <span class={`badge ${kind}`}>{state}</span>
      {waitMs > 0 && <small>{` retry in ${duration(Math.ceil(waitMs / 1000) * 1000)}`}</small>}
    </>
  );
}

function ejectionText({
  by,
  reason,
  until,
  stop_at: stopAt,
}: NonNullable<ProviderStatus['ejection']>): string {
  const end = until === undefined ? 'until it is readmitted' : `until ${moment(until)}`;
  return `${stopAt ? 'Stopped' : 'Ejected'}${by === undefined ? '' : ` by ${by}`} ${end}${reason === undefined ? '.' : `: ${reason}`}`;
}

function statsFacts(provider: string, stats: AttemptStats): readonly Fact[] {
  const { requests, errors, first_byte_p50_ms: p50, first_byte_p95_ms: p95, tokens_per_second } = stats;
  return [
    [
      'Requests in 5 minutes',
      <a key="requests" href={hrefOf('requests', undefined, { provider })}>
        {grouped(requests)}
      </a>,
    ],
    ['Errors', percent(errors, requests)],
    ['First byte, p50', p50 === undefined ? '–' : duration(p50)],
    ['First byte, p95', p95 === undefined ? '–' : duration(p95)],
    ['Tokens a second', tokens_per_second === undefined ? '–' : grouped(Math.round(tokens_per_second))],
    ['Prompt from its cache', cachedShare(stats)],
  ];
}

/** With a bound on what it may cost. */
function budgetFacts({ stop_at: budget }: ProviderStatus): readonly Fact[] {
  if (!budget) return [];
  const { amount, per, spent, resumed } = budget;
  const isOver = resumed ? ', readmitted' : '';
  return [[`Cost this ${per}`, `${money(nanos(spent))} of ${money(nanos(amount))}${isOver}`]];
}

/** Of the tokens of prompts. */
function cachedShare({ prompt_tokens: prompt, cached_tokens: cached }: AttemptStats): string {
  return prompt === undefined || cached === undefined ? '–' : percent(cached, prompt);
}

function TargetTable({ provider, at, change }: ProviderCardProps): JSX.Element {
  const { name, targets, unused_targets: unused } = provider;
  const head = (
    <>
      <Column>Model</Column>
      <Column>State</Column>
      <Column class="number">Requests</Column>
      <Column class="number">Errors</Column>
      <Column class="number wide">p50</Column>
      <Column class="number wide">p95</Column>
      <Column class="number wide">Cached</Column>
      <Column>
        <span class="unseen">Actions</span>
      </Column>
    </>
  );
  return (
    <Table id={`targets-${name}`} head={head}>
      {targets.map((target) => {
        const { model, recent } = target;
        const { first_byte_p50_ms: p50, first_byte_p95_ms: p95 } = recent;
        return (
          <tr key={model}>
            <th scope="row">{model}</th>
            <td>
              <StateBadge thing={target} at={at} />
              {target.ejection && <small>{ejectionText(target.ejection)}</small>}
            </td>
            <NumberCell>{grouped(recent.requests)}</NumberCell>
            <NumberCell>{percent(recent.errors, recent.requests)}</NumberCell>
            <NumberCell class="wide">{p50 === undefined ? '–' : duration(p50)}</NumberCell>
            <NumberCell class="wide">{p95 === undefined ? '–' : duration(p95)}</NumberCell>
            <NumberCell class="wide">{cachedShare(recent)}</NumberCell>
            <td class="number">
              {change && (
                <EjectButton
                  provider={provider}
                  target={model}
                  isEjected={target.state === 'ejected'}
                  change={change}
                />
              )}
            </td>
          </tr>
        );
      })}
      {targets.length === 0 && (
        <EmptyRow columns={8}>{`This process has sent it no request; models: ${grouped(unused)}.`}</EmptyRow>
      )}
    </Table>
  );
}

function ErrorTable({ provider: { name, errors } }: { readonly provider: ProviderStatus }): JSX.Element {
  const head = (
    <>
      <Column>Time</Column>
      <Column>What it said</Column>
      <Column class="wide">Model</Column>
      <Column>Request</Column>
    </>
  );
  return (
    <details open>
      <summary>{`Last errors: ${errors.length}`}</summary>
      <Table id={`errors-${name}`} head={head}>
        {errors.map((error, n) => (
          <tr key={n}>
            <td>{moment(error.at)}</td>
            <td class="wrap">
              {error.status !== undefined && <span class="badge low">{error.status}</span>} {error.message}
              <small>{error.provider_code ?? error.code}</small>
            </td>
            <td class="wide">{error.model}</td>
            <th scope="row">
              <a href={hrefOf('requests', error.request_id)}>{error.request_id}</a>
            </th>
          </tr>
        ))}
      </Table>
    </details>
  );
}

interface EjectButtonProps {
  readonly provider: ProviderStatus;
  /** A model of the provider; undefined for all of them. */
  readonly target: string | undefined;
  readonly isEjected: boolean;
  readonly change: Change;
}

const MINUTE_MS = 60_000;

function EjectButton({ provider, target, isEjected, change }: EjectButtonProps): JSX.Element {
  const { name, changes_reach: reach } = provider;
  const where =
    reach === 'all_processes'
      ? 'In all processes of the store, within a second'
      : 'In the process that answers';
  /** The form that is open: it stays what it is while the provider changes. */
  const [form, setForm] = useState<'eject' | 'readmit'>();
  const close = (): void => setForm(undefined);
  const what = target === undefined ? name : `${name}/${target}`;
  const which = target === undefined ? {} : { target };
  return (
    <>
      <button
        type="button"
        class="plain"
        aria-label={`${isEjected ? 'Readmit' : 'Eject'} ${what}`}
        onClick={() => setForm(isEjected ? 'readmit' : 'eject')}
      >
        {isEjected ? 'Readmit' : 'Eject'}
      </button>
      {form === 'readmit' && (
        <FormDialog
          title={`Readmit ${what}`}
          text={`${where}: requests are sent there again.`}
          submit="Readmit"
          close={close}
          send={(_values, key) => change('readmit', which, key)}
        />
      )}
      {form === 'eject' && (
        <FormDialog
          title={`Eject ${what}`}
          text={`${where}: nothing more is sent there. Running requests go on.`}
          fields={[
            { name: 'reason', label: 'Reason', hint: 'Shown to operators and in the audit log.' },
            { name: 'minutes', label: 'Minutes', hint: 'Without a number: until it is readmitted.' },
          ]}
          submit="Eject"
          isDanger
          close={close}
          send={({ reason = '', minutes = '' }, key) =>
            change(
              'eject',
              {
                ...which,
                ...(reason !== '' && { reason }),
                ...(minutes !== '' && { for_ms: Math.round(Number(minutes) * MINUTE_MS) }),
              },
              key,
            )
          }
        />
      )}
    </>
  );
}
