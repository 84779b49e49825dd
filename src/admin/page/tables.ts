import type { LiveRow, TargetRow } from './api.ts';
import type { BrowserElement } from './browser.ts';
import type { Elements } from './elements.ts';
import type { Figures } from './figures.ts';
import type { Plots } from './plots.ts';
import type { AccountUsage } from './readings.ts';

/** An account as a line of the table. */
export interface AccountLine {
  readonly account: string;
  readonly balance: bigint;
  readonly held: bigint;
  readonly charged: bigint;
  readonly requests: number;
  readonly byDay: readonly number[];
  readonly lasts: number | undefined;
  readonly state: 'frozen' | 'empty' | 'low' | 'fine';
}

export type AccountColumn = 'account' | 'charged' | 'requests' | 'held' | 'balance' | 'lasts';

/** Which accounts are shown, and in which order. */
export interface AccountView {
  readonly sort: AccountColumn;
  readonly descending: boolean;
  readonly search: string;
  readonly onlyLow: boolean;
  readonly shown: number;
}

/** Draws the page's tables. */
export interface Tables {
  readonly isScarce: (line: Pick<AccountLine, 'state'>) => boolean;
  accountLine(usage: AccountUsage): AccountLine;
  /** Says how many lines the view has, shown or not. */
  accounts(lines: readonly AccountLine[], view: AccountView, choose: (account: string) => void): number;
  live(rows: readonly LiveRow[], now: number): void;
  health(rows: readonly TargetRow[], now: number): void;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function createTables(elements: Elements, figures: Figures, plots: Plots): Tables {
  const { html, get, fill } = elements;
  const LOW_DAYS = 3;

  const cell = (text: string, kind = ''): BrowserElement => html('td', { class: `number ${kind}` }, text);
  const badge = (tone: string, text: string): BrowserElement =>
    html('span', { class: `badge ${tone}` }, text);
  const empty = (columns: number, text: string): BrowserElement =>
    html('tr', { class: 'empty' }, html('td', { colspan: columns }, text));

  const isScarce = ({ state }: Pick<AccountLine, 'state'>): boolean => state === 'low' || state === 'empty';

  function order(lines: readonly AccountLine[], { sort, descending }: AccountView): AccountLine[] {
    const key = (line: AccountLine): bigint | number | string =>
      sort === 'lasts' ? (line.lasts ?? Infinity) : line[sort];
    return lines.toSorted((one, other) => {
      const [a, b] = [key(one), key(other)];
      const by = a < b ? -1 : a > b ? 1 : 0;
      return (descending ? -by : by) || (one.account < other.account ? -1 : 1);
    });
  }

  function lasting({ lasts, state }: AccountLine): string {
    if (state === 'empty') return 'nothing left';
    if (lasts === undefined) return '–';
    if (lasts < 1) return 'under a day';
    if (lasts > 365) return 'over a year';
    return lasts < 2 ? '1 day' : `${Math.floor(lasts)} days`;
  }

  return {
    isScarce,

    accountLine({ account: { id, balance, held, granted, frozen }, charged, requests, byDay, lasts }) {
      // One that was never given anything is new, not empty.
      const isEmpty = figures.nanos(balance) <= 0n && figures.nanos(granted) > 0n;
      const isLow = lasts !== undefined && lasts < LOW_DAYS;
      return {
        account: id,
        balance: figures.nanos(balance),
        held: figures.nanos(held),
        charged,
        requests,
        byDay: byDay.map(Number),
        lasts,
        state: frozen ? 'frozen' : isEmpty ? 'empty' : isLow ? 'low' : 'fine',
      };
    },

    accounts(lines, view, choose) {
      const search = view.search.trim().toLowerCase();
      const found = lines.filter(
        ({ account, state }) =>
          account.toLowerCase().includes(search) && (!view.onlyLow || isScarce({ state })),
      );
      const rows = order(found, view)
        .slice(0, view.shown)
        .map((line) => {
          const name = html('button', { class: 'link', type: 'button' }, line.account);
          name.addEventListener('click', () => choose(line.account));
          return html(
            'tr',
            {},
            html('th', { scope: 'row' }, name, ' ', line.state !== 'fine' && badge(line.state, line.state)),
            html('td', { class: 'wide' }, line.byDay.length > 0 && plots.trend(line.byDay)),
            cell(figures.money(line.charged)),
            cell(figures.count(line.requests), 'wide'),
            cell(line.held === 0n ? '–' : figures.money(line.held), 'wide'),
            cell(figures.money(line.balance), isScarce(line) ? `strong ${line.state}` : ''),
            cell(lasting(line), isScarce(line) ? `wide ${line.state}` : 'wide'),
          );
        });
      const nothing =
        lines.length === 0 ? 'There are no accounts yet: the first grant makes one.' : 'No such account.';
      fill('accounts-rows', ...(rows.length > 0 ? rows : [empty(7, nothing)]));
      for (const column of ['account', 'charged', 'requests', 'held', 'balance', 'lasts'] as const) {
        const header = get(`sort-${column}`);
        if (column !== view.sort) header.removeAttribute('aria-sort');
        else header.setAttribute('aria-sort', view.descending ? 'descending' : 'ascending');
      }
      return found.length;
    },

    live(rows, now) {
      const drawn = rows
        .toSorted((one, other) => Date.parse(one.started_at) - Date.parse(other.started_at))
        .slice(0, 50)
        .map(({ model, account, key, provider, streaming, started_at }) =>
          html(
            'tr',
            {},
            html(
              'th',
              { scope: 'row' },
              model ?? '–',
              html('small', {}, provider ? `by ${provider}` : 'waiting'),
            ),
            html('td', {}, account, html('small', {}, key)),
            html('td', { class: 'wide' }, streaming === undefined ? '–' : streaming ? 'stream' : 'whole'),
            cell(figures.duration(now - Date.parse(started_at))),
          ),
        );
      const more = rows.length - drawn.length;
      if (more > 0) drawn.push(empty(4, `and ${figures.count(more)} more`));
      fill('live-rows', ...(drawn.length > 0 ? drawn : [empty(4, 'Nothing runs right now.')]));
      get('live-count').textContent = figures.count(rows.length);
    },

    health(rows, now) {
      const WORDS = { healthy: 'well', ejected: 'set aside', probing: 'on trial' };
      const drawn = rows.map(
        ({ provider, model, state, failures_in_a_row, retry_at, first_byte_ms, running }) => {
          const wait = state === 'ejected' && retry_at !== undefined ? Date.parse(retry_at) - now : 0;
          const again = wait > 0 ? `again in ${figures.duration(Math.ceil(wait / 1000) * 1000)}` : undefined;
          return html(
            'tr',
            {},
            html('th', { scope: 'row' }, provider, html('small', {}, model)),
            html('td', {}, badge(state, WORDS[state]), again && html('small', {}, again)),
            cell(
              failures_in_a_row === 0 ? '–' : figures.count(failures_in_a_row),
              failures_in_a_row ? 'low' : '',
            ),
            cell(first_byte_ms === undefined ? '–' : figures.duration(first_byte_ms)),
            cell(running === 0 ? '–' : figures.count(running), 'wide'),
          );
        },
      );
      const nothing = 'No provider was asked yet by this process.';
      fill('health-rows', ...(drawn.length > 0 ? drawn : [empty(5, nothing)]));
    },
  };
}
