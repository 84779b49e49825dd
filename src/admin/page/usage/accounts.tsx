import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';

import { grouped, money } from '../../../page/format.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';
import {
  type AccountColumn,
  type AccountFilter,
  type AccountLine,
  filterAccounts,
  isLow,
  lastsFor,
} from './account-lines.ts';
import { Trend } from './trend.tsx';

const FIRST_SHOWN = 25;
const NONE: readonly AccountLine[] = [];
/** Columns whose first click sorts in descending order. */
const FALLING: readonly AccountColumn[] = ['charged', 'requests', 'held'];

export interface AccountsProps {
  /** Undefined until loaded. */
  readonly lines: readonly AccountLine[] | undefined;
  readonly choose: (account: string) => void;
}

/** The accounts table, sortable and searchable. */
export function Accounts({ lines: loaded, choose }: AccountsProps): JSX.Element {
  const lines = loaded ?? NONE;
  const [filter, setFilter] = useState<AccountFilter>({
    sort: 'charged',
    descending: true,
    search: '',
    onlyLow: false,
  });
  const [shown, setShown] = useState(FIRST_SHOWN);
  const low = lines.filter(isLow).length;
  const onlyLow = filter.onlyLow && low > 0;
  const found = useMemo(() => filterAccounts(lines, { ...filter, onlyLow }), [lines, filter, onlyLow]);
  const change = (changed: Partial<AccountFilter>): void => setFilter({ ...filter, ...changed });
  return (
    <section class="card" aria-labelledby="accounts-title">
      <div class="title">
        <h2 id="accounts-title">
          Accounts{' '}
          <span id="accounts-count" class="faint">
            {lines.length > 0 && grouped(lines.length)}
          </span>
        </h2>
        <div class="controls">
          <LowChip low={low} isPressed={onlyLow} press={() => change({ onlyLow: !onlyLow })} />
          <Search value={filter.search} search={(search) => change({ search })} />
        </div>
      </div>
      <Table id="accounts-rows" head={<SortedColumns filter={filter} change={change} />}>
        {found.slice(0, shown).map((line) => (
          <AccountRow key={line.account} line={line} choose={choose} />
        ))}
        {found.length === 0 && (
          <EmptyRow columns={7}>
            {!loaded
              ? 'Loading …'
              : lines.length === 0
                ? 'There are no accounts yet: the first grant creates one.'
                : 'No account found.'}
          </EmptyRow>
        )}
      </Table>
      <button
        type="button"
        id="more"
        class="plain"
        hidden={found.length <= shown}
        onClick={() => setShown(shown * 4)}
      >
        Show more
      </button>
    </section>
  );
}

interface LowChipProps {
  readonly low: number;
  readonly isPressed: boolean;
  readonly press: () => void;
}

function LowChip({ low, isPressed, press }: LowChipProps): JSX.Element {
  return (
    <button
      type="button"
      id="only-low"
      class="chip"
      aria-pressed={isPressed}
      hidden={low === 0}
      onClick={press}
    >{`${grouped(low)} low`}</button>
  );
}

interface SearchProps {
  readonly value: string;
  readonly search: (text: string) => void;
}

function Search({ value, search }: SearchProps): JSX.Element {
  return (
    <div class="field">
      <input
        id="search"
        aria-label="Search accounts"
        type="search"
        placeholder="Search accounts"
        autocomplete="off"
        spellcheck={false}
        value={value}
        onInput={(event) => search(event.currentTarget.value)}
      />
    </div>
  );
}

interface SortedColumnsProps {
  readonly filter: AccountFilter;
  readonly change: (changed: Partial<AccountFilter>) => void;
}

function SortedColumns({ filter, change }: SortedColumnsProps): JSX.Element {
  const { sort, descending } = filter;
  const direction = descending ? 'descending' : 'ascending';
  const column = (name: AccountColumn, label: string, kind?: string): JSX.Element => (
    <th scope="col" id={`sort-${name}`} class={kind} aria-sort={name === sort ? direction : undefined}>
      <button
        type="button"
        onClick={() =>
          change({ sort: name, descending: name === sort ? !descending : FALLING.includes(name) })
        }
      >
        {label}
      </button>
    </th>
  );
  return (
    <>
      {column('account', 'Account')}
      <Column class="wide">By day</Column>
      {column('charged', 'Charged', 'number')}
      {column('requests', 'Requests', 'number wide')}
      {column('held', 'Held', 'number wide')}
      {column('balance', 'Balance', 'number')}
      {column('lasts', 'Lasts for', 'number wide')}
    </>
  );
}

interface AccountRowProps {
  readonly line: AccountLine;
  readonly choose: (account: string) => void;
}

function AccountRow({ line, choose }: AccountRowProps): JSX.Element {
  const { account, state, byDay, charged, requests, held, balance } = line;
  return (
    <tr>
      <th scope="row">
        <button class="link" type="button" onClick={() => choose(account)}>
          {account}
        </button>{' '}
        {state !== 'fine' && <span class={`badge ${state}`}>{state}</span>}
      </th>
      <td class="wide">{byDay.length > 0 && <Trend values={byDay} />}</td>
      <NumberCell>{money(charged)}</NumberCell>
      <NumberCell class="wide">{grouped(requests)}</NumberCell>
      <NumberCell class="wide">{held === 0n ? '–' : money(held)}</NumberCell>
      <NumberCell class={isLow(line) ? `strong ${state}` : ''}>{money(balance)}</NumberCell>
      <NumberCell class={isLow(line) ? `wide ${state}` : 'wide'}>{lastsFor(line)}</NumberCell>
    </tr>
  );
}
