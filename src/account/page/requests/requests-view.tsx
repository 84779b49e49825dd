import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { CopyButton } from '../../../page/copy-button.tsx';
import { duration, grouped, moment } from '../../../page/format.ts';
import { chargeOf, StatusBadge } from '../../../page/requests/status.tsx';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';
import type { OwnRequest } from '../../../client/admin-api.generated.ts';
import { Choices } from '../choices.tsx';
import { CsvButton } from '../../../page/csv-button.tsx';
import { FilterChip } from '../filter-chip.tsx';
import { keyNameOf, readKeyNames } from '../key-names.ts';
import { ViewBody } from '../view-body.tsx';
import type { ViewProps } from '../view-props.ts';
import { OneRequest } from './one-request.tsx';

const PAGE_ROWS = '50';
/** The most that the API answers at once. */
const CSV_ROWS = '500';
const REFRESH_MS = 5000;
const HOUR_MS = 3_600_000;

type Filters = Readonly<Record<string, string>>;

const STATUSES = [
  { text: 'All', value: '' },
  { text: 'Succeeded', value: '2xx' },
  { text: 'Rejected', value: '4xx' },
  { text: 'Failed', value: '5xx' },
];
const TIMES = [
  { text: 'Any time', value: '', hours: 0 },
  { text: 'Last hour', value: '1h', hours: 1 },
  { text: 'Last day', value: '1d', hours: 24 },
  { text: 'Last 7 days', value: '7d', hours: 168 },
];

interface RequestsData {
  readonly rows: readonly OwnRequest[];
  readonly next: string | null | undefined;
  /** ID of a key → its name. */
  readonly keyNames: ReadonlyMap<string, string>;
}

/** The log of requests, or one of them. */
export function RequestsView(props: ViewProps): JSX.Element {
  const { id } = props.route;
  return id === undefined ? <RequestList {...props} /> : <OneRequest session={props.session} id={id} />;
}

function RequestList({ session, route: { query } }: ViewProps): JSX.Element {
  const filters: Filters = Object.fromEntries(query);
  const { api } = session;
  const [failure, setFailure] = useState<string>();
  const { data, notice } = useResource<RequestsData>(session, {
    subject: query.toString(),
    everyMs: REFRESH_MS,
    async ask() {
      const [found, keyNames] = await Promise.all([
        api.list<OwnRequest>('requests', { ...queryOf(filters), limit: PAGE_ROWS }),
        readKeyNames(api),
      ]);
      return { rows: found.data, next: found.next_cursor, keyNames };
    },
  });
  return (
    <ViewBody
      title="Requests"
      about="What was asked with your keys. The log holds no prompts and no answers."
      notice={notice ?? failure}
      controls={
        <CsvButton
          id="requests-csv"
          class="outline"
          name="requests.csv"
          isDisabled={!data}
          read={() => api.text('requests', { ...queryOf(filters), limit: CSV_ROWS, format: 'csv' })}
          setFailure={setFailure}
        />
      }
    >
      {data && (
        <section class="card" aria-label="Requests">
          <div class="filter-bar">
            <Choices label="Status" choices={choicesOf('status', STATUSES, filters)} />
            <Choices label="Time" choices={choicesOf('since', TIMES, filters)} />
            <ChosenFilters filters={filters} keyNames={data.keyNames} />
          </div>
          <RequestTable data={data} filters={filters} />
        </section>
      )}
    </ViewBody>
  );
}

/** The filters as the API takes them: a time in place of how long ago. */
function queryOf({ since, ...filters }: Filters): Filters {
  const hours = TIMES.find(({ value }) => value === since)?.hours;
  return hours ? { ...filters, from: new Date(Date.now() - hours * HOUR_MS).toISOString() } : filters;
}

/** The address with one filter changed, at the newest request. */
function filtered(filters: Filters, name: string, value: string): string {
  return hrefOf('requests', undefined, { ...filters, cursor: '', [name]: value });
}

function choicesOf(
  name: string,
  values: readonly { readonly text: string; readonly value: string }[],
  filters: Filters,
): { text: string; href: string; isCurrent: boolean }[] {
  return values.map(({ text, value }) => ({
    text,
    href: filtered(filters, name, value),
    isCurrent: value === (filters[name] ?? ''),
  }));
}

interface ChosenFiltersProps {
  readonly filters: Filters;
  readonly keyNames: ReadonlyMap<string, string>;
}

/** The filters of cells, each with a link that removes it. */
function ChosenFilters({ filters, keyNames }: ChosenFiltersProps): JSX.Element | null {
  const chosen = ['model', 'key', 'status'].flatMap((name) => {
    const value = filters[name] ?? '';
    const isChoice = name === 'status' && STATUSES.some((status) => status.value === value);
    return value === '' || isChoice ? [] : [{ name, value }];
  });
  if (chosen.length === 0) return null;
  return (
    <div class="controls">
      {chosen.map(({ name, value }) => (
        <FilterChip
          key={name}
          name={name}
          value={name === 'key' ? keyNameOf(keyNames, value) : value}
          href={filtered(filters, name, '')}
        />
      ))}
    </div>
  );
}

interface RequestTableProps {
  readonly data: RequestsData;
  readonly filters: Filters;
}

function RequestTable({ data: { rows, next, keyNames }, filters }: RequestTableProps): JSX.Element {
  const head = (
    <>
      <Column>Time</Column>
      <Column class="wider">Request</Column>
      <Column>Model</Column>
      <Column class="wide">Key</Column>
      <Column>Status</Column>
      <Column class="number wide">Tokens</Column>
      <Column class="number wide">Took</Column>
      <Column class="number">Charged</Column>
    </>
  );
  return (
    <>
      <Table id="request-rows" head={head}>
        {rows.map((request) => (
          <RequestRow key={request.id} request={request} filters={filters} keyNames={keyNames} />
        ))}
        {rows.length === 0 && <EmptyRow columns={8}>No request found.</EmptyRow>}
      </Table>
      <p class="controls end">
        {filters['cursor'] !== undefined && (
          <a class="plain" href={filtered(filters, 'cursor', '')}>
            Newest
          </a>
        )}
        {next && (
          <a class="plain" href={hrefOf('requests', undefined, { ...filters, cursor: next })}>
            Older
          </a>
        )}
      </p>
    </>
  );
}

interface RequestRowProps extends Pick<RequestsData, 'keyNames'> {
  readonly request: OwnRequest;
  readonly filters: Filters;
}

function RequestRow({ request, filters, keyNames }: RequestRowProps): JSX.Element {
  const { id, created_at, key, model, status, code, duration_ms, usage } = request;
  return (
    <tr>
      <th scope="row">
        <a href={hrefOf('requests', id)} aria-label={`Request of ${moment(created_at)}`}>
          {moment(created_at)}
        </a>
      </th>
      <td class="wider id">
        <code>{id}</code> <CopyButton text={id} />
      </td>
      <td class="name" title={model}>
        {model === undefined ? '–' : <a href={filtered(filters, 'model', model)}>{model}</a>}
      </td>
      <td class="wide name" title={key}>
        <a href={filtered(filters, 'key', key)}>{keyNameOf(keyNames, key)}</a>
      </td>
      <td>
        <a href={filtered(filters, 'status', String(status))} aria-label={`Status ${status}`}>
          <StatusBadge status={status} />
        </a>
        {code !== undefined && <small>{code}</small>}
      </td>
      <NumberCell class="wide">
        {usage ? grouped(usage.prompt_tokens + usage.completion_tokens) : '–'}
      </NumberCell>
      <NumberCell class="wide">{duration(duration_ms)}</NumberCell>
      <NumberCell>{chargeOf(request)}</NumberCell>
    </tr>
  );
}
