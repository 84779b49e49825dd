import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { FoundRequests, LoggedRequest } from '../../../client/admin-api.generated.ts';
import { duration, moment } from '../../../page/format.ts';
import { formValues } from '../../../page/form-values.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';
import type { ViewProps } from '../view-props.ts';
import { RunningRequests } from './running-requests.tsx';
import { RequestStory } from './request-story.tsx';
import { chargeOf, StatusBadge } from '../../../page/requests/status.tsx';

const PAGE_ROWS = '50';
const REFRESH_MS = 5000;

/** The filters, as in the address and in the query. */
const FILTERS = [
  { name: 'account', label: 'Account' },
  { name: 'key', label: 'Key' },
  { name: 'model', label: 'Model' },
  { name: 'provider', label: 'Provider' },
  { name: 'code', label: 'Code' },
];
const STATUSES = ['', '2xx', '4xx', '5xx'];

/** The log of requests, or one of them. */
export function RequestsView(props: ViewProps): JSX.Element {
  const { id } = props.route;
  return id === undefined ? <RequestList {...props} /> : <RequestStory session={props.session} id={id} />;
}

function RequestList({ session, route: { query } }: ViewProps): JSX.Element {
  const { part, ...filters } = Object.fromEntries(query);
  const { data, notice } = useResource<FoundRequests>(session, {
    subject: JSON.stringify(filters),
    everyMs: REFRESH_MS,
    ask: () => session.api.get('requests', { ...filters, limit: PAGE_ROWS }),
  });
  return (
    <Frame name="requests" title="Requests" session={session} notice={notice} controls={<FindRequest />}>
      {data && (
        <div id="report">
          <section class="card" aria-label="Requests">
            <Filters key={query.toString()} filters={filters} />
            <RequestTable found={data} filters={filters} />
          </section>
          <RunningRequests session={session} filters={filters} isAskedFor={part === 'running'} />
        </div>
      )}
    </Frame>
  );
}

/** Opens a request by its ID. */
function FindRequest(): JSX.Element {
  const [id, setId] = useState('');
  return (
    <form
      class="field"
      onSubmit={(event) => {
        event.preventDefault();
        if (id.trim() !== '') location.hash = hrefOf('requests', id.trim());
      }}
    >
      <input
        id="find-request"
        type="search"
        aria-label="Find a request by its x-request-id"
        placeholder="x-request-id"
        autocomplete="off"
        spellcheck={false}
        value={id}
        onInput={(event) => setId(event.currentTarget.value)}
      />
    </form>
  );
}

function Filters({ filters }: { readonly filters: Readonly<Record<string, string>> }): JSX.Element {
  function apply(event: SubmitEvent): void {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    location.hash = hrefOf('requests', undefined, formValues(event.currentTarget));
  }
  return (
    <form class="filters" aria-label="Filters" onSubmit={apply}>
      {FILTERS.map(({ name, label }) => (
        <label key={name}>
          {label}
          <input
            name={name}
            type="search"
            autocomplete="off"
            spellcheck={false}
            defaultValue={filters[name] ?? ''}
          />
        </label>
      ))}
      <label>
        Status
        <select name="status">
          {[...new Set([...STATUSES, filters['status'] ?? ''])].map((status) => (
            <option key={status} value={status} selected={status === (filters['status'] ?? '')}>
              {status === '' ? 'all' : status}
            </option>
          ))}
        </select>
      </label>
      <button type="submit" class="primary small">
        Search
      </button>
    </form>
  );
}

interface RequestTableProps {
  readonly found: FoundRequests;
  readonly filters: Readonly<Record<string, string>>;
}

function RequestTable({ found: { data, next_cursor: cursor }, filters }: RequestTableProps): JSX.Element {
  const head = (
    <>
      <Column>Time</Column>
      <Column>Request</Column>
      <Column>Account</Column>
      <Column class="wide">Model</Column>
      <Column class="wide">Provider</Column>
      <Column>Status</Column>
      <Column class="number wide">First byte</Column>
      <Column class="number wide">In all</Column>
      <Column class="number">Charged</Column>
    </>
  );
  return (
    <>
      <Table id="request-rows" head={head}>
        {data.map((request) => (
          <RequestRow key={request.id} request={request} filters={filters} />
        ))}
        {data.length === 0 && <EmptyRow columns={9}>No request found.</EmptyRow>}
      </Table>
      <p class="controls end">
        {filters['cursor'] !== undefined && (
          <a class="plain" href={hrefOf('requests', undefined, { ...filters, cursor: '' })}>
            Newest
          </a>
        )}
        {cursor !== null && (
          <a class="plain" href={hrefOf('requests', undefined, { ...filters, cursor })}>
            Older
          </a>
        )}
      </p>
    </>
  );
}

interface RequestRowProps {
  readonly request: LoggedRequest;
  readonly filters: Readonly<Record<string, string>>;
}

function RequestRow({ request, filters }: RequestRowProps): JSX.Element {
  const { id, created_at, account, model, provider, status, code, first_byte_ms, duration_ms } = request;
  const filtered = (name: string, value: string | undefined): JSX.Element | string =>
    value === undefined ? (
      '–'
    ) : (
      <a href={hrefOf('requests', undefined, { ...filters, cursor: '', [name]: value })}>{value}</a>
    );
  return (
    <tr>
      <td>{moment(created_at)}</td>
      <th scope="row">
        <a href={hrefOf('requests', id)}>{id}</a>
      </th>
      <td>{filtered('account', account)}</td>
      <td class="wide">{filtered('model', model)}</td>
      <td class="wide">{filtered('provider', provider)}</td>
      <td>
        <StatusBadge status={status} /> {code !== undefined && <small>{filtered('code', code)}</small>}
      </td>
      <NumberCell class="wide">{first_byte_ms === undefined ? '–' : duration(first_byte_ms)}</NumberCell>
      <NumberCell class="wide">{duration(duration_ms)}</NumberCell>
      <NumberCell>{chargeOf(request)}</NumberCell>
    </tr>
  );
}
