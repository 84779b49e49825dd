import type { JSX } from 'preact';
import { useCallback, useMemo, useState } from 'preact/hooks';

import { clock } from '../../../page/format.ts';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import { DailyCard } from '../../../page/usage/daily-card.tsx';
import { modelCandidates } from '../../../page/usage/ranking.ts';
import { RankingCard } from '../../../page/usage/ranking-card.tsx';
import { sum } from '../../../page/usage/sums.ts';
import { ChargedTile, RequestsTile, TokensTile } from '../../../page/usage/tile.tsx';
import { ModelTones } from '../../../page/usage/tones.ts';
import type { Unit } from '../../../page/usage/units.ts';
import { Choices } from '../choices.tsx';
import { CsvButton } from '../../../page/csv-button.tsx';
import { FilterChip } from '../filter-chip.tsx';
import { keyNameOf } from '../key-names.ts';
import { ViewBody } from '../view-body.tsx';
import type { ViewProps } from '../view-props.ts';
import {
  type HrefTo,
  keyCandidates,
  type OwnUsage,
  readUsage,
  usageCsv,
  userCandidates,
} from './own-usage.ts';

const REFRESH_MS = 60_000;
const RANGES = [7, 30, 90];
const FILTERS = ['key', 'model'] as const;

/** Usage by day, model, key and end user. */
export function UsageView({ session, me, route: { query } }: ViewProps): JSX.Element {
  const days = RANGES.find((each) => String(each) === query.get('days')) ?? 30;
  const filters = Object.fromEntries(
    FILTERS.flatMap((name) => (query.get(name) ? [[name, query.get(name) ?? '']] : [])),
  );
  // By end user there are no sums of a key or a model, and a key that sees only itself sees no end users.
  const hasUsers = me.end_users && me.scope === 'account' && Object.keys(filters).length === 0;
  const [failure, setFailure] = useState<string>();
  const { data, at, notice } = useResource<OwnUsage>(session, {
    subject: JSON.stringify([days, filters]),
    everyMs: REFRESH_MS,
    ask: () => readUsage(session.api, { days, filters, hasUsers }),
  });

  const search = query.toString();
  const hrefTo = useCallback<HrefTo>(
    (name, value) =>
      hrefOf('usage', undefined, { ...Object.fromEntries(new URLSearchParams(search)), [name]: value }),
    [search],
  );
  const ranges = RANGES.map((each) => ({
    text: `${each} days`,
    href: hrefOf('usage', undefined, { ...filters, days: String(each) }),
    isCurrent: each === days,
  }));
  return (
    <ViewBody
      title="Usage"
      about={data && `Days are in UTC. As of ${clock(at)}.`}
      notice={notice ?? failure}
      controls={
        <>
          <Choices label="Range" choices={ranges} />
          <CsvButton
            id="usage-csv"
            class="outline"
            name={`usage-${data?.from}-${data?.to}.csv`}
            isDisabled={!data}
            read={() => usageCsv(session.api, data, filters)}
            setFailure={setFailure}
          />
        </>
      }
    >
      {data && (
        <>
          <ActiveFilters filters={filters} days={days} names={data.keyNames} />
          <Report usage={data} hrefTo={hrefTo} />
        </>
      )}
    </ViewBody>
  );
}

interface ActiveFiltersProps {
  readonly filters: Readonly<Record<string, string>>;
  readonly days: number;
  readonly names: ReadonlyMap<string, string>;
}

function ActiveFilters({ filters, days, names }: ActiveFiltersProps): JSX.Element | null {
  const entries = Object.entries(filters);
  if (entries.length === 0) return null;
  return (
    <p class="controls">
      {entries.map(([name, value]) => (
        <FilterChip
          key={name}
          name={name}
          value={name === 'key' ? keyNameOf(names, value) : value}
          href={hrefOf('usage', undefined, { ...filters, [name]: '', days: String(days) })}
        />
      ))}
    </p>
  );
}

interface ReportProps {
  readonly usage: OwnUsage;
  /** Memoized. */
  readonly hrefTo: HrefTo;
}

function Report({ usage, hrefTo }: ReportProps): JSX.Element {
  const [unit, setUnit] = useState<Unit>('charged');
  const [modelTones] = useState(() => new ModelTones());
  const tones = useMemo(() => modelTones.of(usage.range.models), [modelTones, usage]);
  const models = useMemo(
    () => modelCandidates(usage.range, tones).map((one) => ({ ...one, href: hrefTo('model', one.name) })),
    [usage, tones, hrefTo],
  );
  const keys = useMemo(() => keyCandidates(usage, hrefTo), [usage, hrefTo]);
  const users = useMemo(() => userCandidates(usage), [usage]);
  const sums = sum(usage.range.models);
  return (
    <>
      <section class="tiles three" aria-label="Summary">
        <ChargedTile usage={usage.range} charged={sums.charged} />
        <RequestsTile sums={sums} />
        <TokensTile sums={sums} />
      </section>
      <DailyCard usage={usage.range} tones={tones} unit={unit} chooseUnit={setUnit} />
      <div class="pair">
        <RankingCard id="models" noun="model" candidates={models} />
        <RankingCard id="keys" noun="key" candidates={keys} />
      </div>
      {usage.users && <RankingCard id="users" noun="end user" candidates={users} />}
    </>
  );
}
