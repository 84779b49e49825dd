import type { Api } from './api.ts';
import type { Browser } from './browser.ts';
import type { Elements } from './elements.ts';
import type { Figures } from './figures.ts';
import type { RangeUsage, Readings } from './readings.ts';
import type { Report, Unit } from './report.ts';
import type { AccountColumn, AccountLine, AccountView, Tables } from './tables.ts';

/** What the page is made of. */
export interface Parts {
  readonly elements: Elements;
  readonly figures: Figures;
  readonly api: Api;
  readonly readings: Readings;
  readonly report: Report;
  readonly tables: Tables;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function startPage(browser: Browser, parts: Parts): void {
  const { figures, api, readings, report, tables } = parts;
  const { html, get, fill } = parts.elements;
  const { document } = browser;
  const REPORT_MS = 60_000;
  const LIVE_MS = 3000;
  /** Pauses are so many times as long as the answers took. */
  const PAUSE_RATIO = 20;
  const RANGES = [7, 30, 90];
  const UNITS: readonly Unit[] = ['charged', 'requests', 'tokens'];
  const COLUMNS: readonly AccountColumn[] = ['account', 'charged', 'requests', 'held', 'balance', 'lasts'];
  const FALLING: readonly AccountColumn[] = ['charged', 'requests', 'held'];

  const asked = new URLSearchParams(browser.location.hash.slice(1));
  let days = RANGES.find((range) => String(range) === asked.get('days')) ?? 30;
  let account = asked.get('account') ?? '';
  let unit: Unit = 'charged';
  let view: AccountView = { sort: 'charged', descending: true, search: '', onlyLow: false, shown: 25 };

  let usage: RangeUsage | undefined;
  let lines: readonly AccountLine[] = [];
  let loadedAt = 0;
  /** Counts what was asked for: an answer that comes when more was asked for since is for nobody. */
  let loads = 0;
  let failing = false;
  /** The accounts that can be chosen. */
  let options = '';

  const clock = (at: number): string => new Date(at).toLocaleTimeString('en-GB');

  function isSigningIn(): boolean {
    return !get('sign-in').hidden;
  }

  /** Shows the report, the form, or, before there is either, only what there is to say. */
  function display(what: 'report' | 'sign-in' | 'nothing'): void {
    get('report').hidden = what !== 'report';
    get('sign-in').hidden = what !== 'sign-in';
    get('sign-out').hidden = what !== 'report' || api.token === undefined;
    get('body').toggleAttribute('data-waiting', what !== 'report');
    if (what !== 'report') get('updated').textContent = '';
  }

  function tell(text: string): void {
    get('notice').hidden = text === '';
    get('notice').textContent = text;
  }

  function askForToken(): void {
    const refused = api.token !== undefined;
    api.useToken(undefined);
    usage = undefined;
    tell('');
    get('sign-in-why').textContent = refused
      ? 'The admin door did not accept that token.'
      : 'The admin door wants to know who asks.';
    get('sign-in-why').setAttribute('class', refused ? 'bad' : '');
    if (isSigningIn()) return;
    display('sign-in');
    get('token').focus();
  }

  /** Shows what went wrong; what was read before stays, and is said to be old. */
  function fail(error: unknown): void {
    const { status, message } = api.failure(error);
    if (status === 401) {
      askForToken();
      return;
    }
    failing = true;
    const since = usage ? ` These numbers are of ${clock(loadedAt)}.` : '';
    tell(`${message}${since} Trying again.`);
    display(usage ? 'report' : 'nothing');
    get('report').toggleAttribute('data-stale', true);
  }

  async function load(): Promise<void> {
    loads += 1;
    const mine = loads;
    try {
      const read = await readings.range(days, account);
      if (mine !== loads) return;
      usage = read.usage;
      lines = read.accounts.map((account) => tables.accountLine(account));
    } catch (error) {
      if (mine === loads) fail(error);
      return;
    }
    loadedAt = Date.now();
    failing = false;
    tell('');
    display('report');
    get('report').toggleAttribute('data-stale', false);
    get('updated').textContent = `as of ${clock(loadedAt)}, days in UTC`;
    draw();
  }

  async function watch(): Promise<void> {
    try {
      const { requests, targets } = await readings.now(account);
      tables.live(requests, Date.now());
      tables.health(targets, Date.now());
    } catch (error) {
      fail(error);
      return;
    }
    if (failing) await load();
  }

  function draw(): void {
    drawChoices();
    if (usage) report.show(usage, unit);
    drawBalance();
    drawAccounts();
  }

  function drawBalance(): void {
    const chosen = lines.filter((line) => account === '' || line.account === account);
    const low = chosen.filter(tables.isScarce).length;
    const held = figures.money(chosen.reduce((sum, line) => sum + line.held, 0n));
    get('balance').textContent = figures.money(chosen.reduce((sum, line) => sum + line.balance, 0n));
    const counted = `${figures.count(chosen.length)} ${chosen.length === 1 ? 'account' : 'accounts'} · `;
    fill(
      'balance-note',
      html('span', {}, `${account === '' ? counted : ''}${held} held`),
      low > 0 && html('span', { class: 'low' }, account === '' ? `${figures.count(low)} low` : 'low'),
    );
  }

  function drawAccounts(): void {
    const low = lines.filter(tables.isScarce).length;
    if (low === 0) view = { ...view, onlyLow: false };
    get('accounts-count').textContent = lines.length > 0 ? figures.count(lines.length) : '';
    get('only-low').hidden = low === 0;
    get('only-low').textContent = `${figures.count(low)} low`;
    get('only-low').setAttribute('aria-pressed', String(view.onlyLow));
    const found = tables.accounts(lines, view, choose);
    get('more').hidden = found <= view.shown;
  }

  function drawChoices(): void {
    for (const range of RANGES) get(`days-${range}`).setAttribute('aria-pressed', String(range === days));
    for (const name of UNITS) get(`unit-${name}`).setAttribute('aria-pressed', String(name === unit));
    const known = [...new Set([...lines.map((line) => line.account), account])].filter(Boolean).sort();
    // A list that somebody has open is left alone while it is right.
    if (known.join() !== options) {
      options = known.join();
      const all = html('option', { value: '' }, 'All accounts');
      fill('account', all, ...known.map((name) => html('option', { value: name }, name)));
    }
    get('account').value = account;
    const chosen = new URLSearchParams({ days: String(days), ...(account && { account }) });
    browser.history.replaceState(null, '', `#${chosen.toString()}`);
  }

  function choose(name: string): void {
    account = name;
    drawChoices();
    void load();
    void watch();
  }

  /** Asks again and again while somebody looks: one question at a time, and less often what takes long to answer. */
  function whileSeen(everyMs: number, ask: () => Promise<void>): void {
    let timer: NodeJS.Timeout | undefined;
    let asking = false;
    async function round(): Promise<void> {
      clearTimeout(timer);
      if (document.hidden || asking) return;
      asking = true;
      const askedAt = Date.now();
      if (!isSigningIn()) await ask();
      asking = false;
      timer = setTimeout(() => void round(), Math.max(everyMs, PAUSE_RATIO * (Date.now() - askedAt)));
    }
    document.addEventListener('visibilitychange', () => void round());
    void round();
  }

  const THEMES = ['', 'light', 'dark'];
  const THEME = 'chat-completions-router-theme';
  let theme = '';
  function useTheme(name: string): void {
    theme = THEMES.includes(name) ? name : '';
    if (theme === '') document.documentElement.removeAttribute('data-theme');
    else document.documentElement.setAttribute('data-theme', theme);
    const label = `Theme: ${theme || 'as the system'}`;
    get('theme').setAttribute('aria-label', label);
    get('theme').setAttribute('title', label);
  }
  // Where storage is forbidden, the choice lasts as long as the page.
  try {
    useTheme(browser.localStorage.getItem(THEME) ?? '');
  } catch {}

  const on = (id: string, type: string, listener: () => void): void =>
    get(id).addEventListener(type, listener);
  on('theme', 'click', () => {
    useTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? '');
    try {
      browser.localStorage.setItem(THEME, theme);
    } catch {}
  });
  on('account', 'change', () => choose(get('account').value));
  for (const range of RANGES) {
    on(`days-${range}`, 'click', () => {
      days = range;
      drawChoices();
      void load();
    });
  }
  for (const name of UNITS) {
    on(`unit-${name}`, 'click', () => {
      unit = name;
      draw();
    });
  }
  for (const sort of COLUMNS) {
    on(`sort-${sort}`, 'click', () => {
      view = { ...view, sort, descending: view.sort === sort ? !view.descending : FALLING.includes(sort) };
      drawAccounts();
    });
  }
  on('search', 'input', () => {
    view = { ...view, search: get('search').value };
    drawAccounts();
  });
  on('only-low', 'click', () => {
    view = { ...view, onlyLow: !view.onlyLow };
    drawAccounts();
  });
  on('more', 'click', () => {
    view = { ...view, shown: view.shown * 4 };
    drawAccounts();
  });
  get('sign-in').addEventListener('submit', (event) => {
    event.preventDefault();
    api.useToken(get('token').value);
    get('token').value = '';
    void load().then(() => {
      if (!isSigningIn()) void watch();
    });
  });
  on('sign-out', 'click', () => {
    api.useToken(undefined);
    // Nothing of what was shown stays behind.
    browser.location.reload();
  });

  whileSeen(REPORT_MS, load);
  whileSeen(LIVE_MS, watch);
}
