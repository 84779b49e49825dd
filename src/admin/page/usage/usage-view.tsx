import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';

import { clock } from '../../../page/format.ts';
import { Frame } from '../frame.tsx';
import { type Segment, Segments } from '../../../page/segments.tsx';
import type { ViewProps } from '../view-props.ts';
import type { AccountLine } from './account-lines.ts';
import { Report } from './report.tsx';
import { type LoadedRange, type UsageQuery, useUsage } from './use-usage.ts';

const RANGES: readonly Segment<number>[] = [7, 30, 90].map((days) => ({
  value: days,
  label: `${days} days`,
  content: (
    <>
      {days}
      <span class="word"> days</span>
    </>
  ),
}));

/** Usage by day, model, key and account; running requests, and provider health. */
export function UsageView({ session, route }: ViewProps): JSX.Element {
  const query = useMemo(() => queryIn(route.query), [route]);
  const { range, lines, live, failure } = useUsage(session, query);
  const chooseAccount = (account: string): void => choose({ ...query, account });
  return (
    <Frame
      name="overview"
      title="Usage"
      session={session}
      notice={failure === undefined ? undefined : noticeOf(failure, range)}
      status={range && `as of ${clock(range.at)}, days in UTC`}
      controls={
        <>
          <AccountSelect lines={lines} account={query.account} choose={chooseAccount} />
          <Segments
            id="days"
            label="Range"
            segments={RANGES}
            value={query.days}
            choose={(days) => choose({ ...query, days })}
          />
        </>
      }
    >
      {range && (
        <Report
          range={range}
          lines={lines}
          live={live}
          isStale={failure !== undefined}
          chooseAccount={chooseAccount}
        />
      )}
    </Frame>
  );
}

function queryIn(asked: URLSearchParams): UsageQuery {
  const days = RANGES.find(({ value }) => String(value) === asked.get('days'))?.value ?? 30;
  return { days, account: asked.get('account') ?? '' };
}

/** By the address, without another entry in the browser's history. */
function choose({ days, account }: UsageQuery): void {
  location.replace(`#${new URLSearchParams({ days: String(days), ...(account && { account }) }).toString()}`);
}

function noticeOf(failure: string, range: LoadedRange | undefined): string {
  const age = range ? ` Showing data as of ${clock(range.at)}.` : '';
  return `${failure}${age} Retrying.`;
}

interface AccountSelectProps {
  /** Undefined until loaded. */
  readonly lines: readonly AccountLine[] | undefined;
  readonly account: string;
  readonly choose: (account: string) => void;
}

function AccountSelect({ lines, account, choose }: AccountSelectProps): JSX.Element {
  const known = new Set([...(lines?.map((line) => line.account) ?? []), account]);
  known.delete('');
  return (
    <div class="field">
      <select
        id="account"
        aria-label="Account"
        value={account}
        onChange={(event) => choose(event.currentTarget.value)}
      >
        <option value="">All accounts</option>
        {[...known].sort().map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </div>
  );
}
