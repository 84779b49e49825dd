import type { UsageRow } from './api.ts';
import type { Elements } from './elements.ts';
import type { Figures, Sums } from './figures.ts';
import type { Plots, Rank } from './plots.ts';
import type { Fact } from './pointing.ts';
import type { RangeUsage } from './readings.ts';

export type Unit = 'charged' | 'requests' | 'tokens';

/** Draws what a range of days comes to: in short, by day, by model and by key. */
export interface Report {
  show(usage: RangeUsage, unit: Unit): void;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function createReport(elements: Elements, figures: Figures, plots: Plots): Report {
  const { html, get, fill } = elements;
  /** How many models have a color of their own, and how many rows a ranking has. */
  const TONES = 6;
  const RANKS = 8;

  function group(rows: readonly UsageRow[], by: (row: UsageRow) => string): Map<string, UsageRow[]> {
    const groups = new Map<string, UsageRow[]>();
    for (const row of rows) {
      const group = groups.get(by(row));
      if (group) group.push(row);
      else groups.set(by(row), [row]);
    }
    return groups;
  }

  const amount = (sums: Sums, unit: Unit): number =>
    unit === 'requests'
      ? sums.requests
      : unit === 'tokens'
        ? sums.prompt + sums.completion
        : Number(sums.charged);

  const written = (value: number, unit: Unit): string =>
    unit === 'charged' ? figures.money(BigInt(Math.round(value))) : figures.short(value);

  function margin({ cost, costed }: Sums): string | undefined {
    if (cost === 0n) return undefined;
    return `${figures.money(costed - cost)} (${figures.percent(Number(costed - cost), Number(costed))})`;
  }

  /** All that is known of some usage, but what its headline says. */
  function facts(sums: Sums, headline: Unit): Fact[] {
    const earned = margin(sums);
    const all: (Fact & { readonly of?: Unit })[] = [
      { of: 'charged', name: 'Charged', value: figures.money(sums.charged) },
      { name: 'Cost', value: earned === undefined ? 'not known' : figures.money(sums.cost) },
      ...(earned === undefined ? [] : [{ name: 'Margin', value: earned }]),
      { of: 'requests', name: 'Requests', value: figures.count(sums.requests) },
      { name: 'Errors', value: figures.count(sums.errors) },
      { name: 'Aborted', value: figures.count(sums.aborted) },
      { name: 'Prompt tokens', value: figures.count(sums.prompt) },
      { name: 'of them cached', value: figures.count(sums.cached) },
      { name: 'Completion tokens', value: figures.count(sums.completion) },
    ];
    return all.filter(({ of }) => of !== headline);
  }

  function tile(id: string, figure: string, ...notes: string[]): void {
    get(id).textContent = figure;
    fill(`${id}-note`, ...notes.map((note) => html('span', {}, note)));
  }

  function showTiles({ days, chargedBefore }: RangeUsage, all: Sums): void {
    const { percent, short } = figures;
    const change = percent(Number(all.charged - chargedBefore), Number(chargedBefore));
    const signed = all.charged >= chargedBefore ? `+${change}` : change.replace('-', '−');
    const compared =
      chargedBefore === 0n ? `in ${days.length} days` : `${signed} on the ${days.length} days before`;
    tile('charged', figures.money(all.charged), compared);

    if (all.cost === 0n) tile('margin', '–', 'no cost is known');
    else {
      const margin = percent(Number(all.costed - all.cost), Number(all.costed));
      const known = percent(Number(all.costed), Number(all.charged));
      tile(
        'margin',
        figures.money(all.costed - all.cost),
        `${margin} · cost ${figures.money(all.cost)}`,
        ...(all.costed < all.charged ? [`known for ${known}`] : []),
      );
    }

    const failed = `${percent(all.errors, all.requests)} errors · ${percent(all.aborted, all.requests)} aborted`;
    tile('requests', short(all.requests), all.requests === 0 ? 'none' : failed);

    const tokens = all.prompt + all.completion;
    const cached = `${short(all.prompt)} in, ${percent(all.cached, all.prompt)} cached`;
    tile('tokens', short(tokens), ...(tokens === 0 ? ['none'] : [cached, `${short(all.completion)} out`]));
  }

  const remembered = new Map<string, string>();

  /** Model → its color: the dearest ones each their own, and as far as can be the one they had before. */
  function tonesOf(rows: readonly UsageRow[]): Map<string, string> {
    const models = [...group(rows, ({ model = '' }) => model)].map(([model, rows]) => ({
      model,
      sums: figures.sum(rows),
    }));
    models.sort(
      (one, other) =>
        Number(other.sums.charged - one.sums.charged) || other.sums.requests - one.sums.requests,
    );
    const colored = models.slice(0, TONES).map(({ model }) => model);
    const free = new Set(Array.from({ length: TONES }, (_, i) => `tone-${i}`));
    for (const model of colored) {
      const tone = remembered.get(model);
      if (tone !== undefined && !free.delete(tone)) remembered.delete(model);
    }
    for (const model of colored) {
      const [tone = 'tone-rest'] = free;
      if (remembered.has(model)) continue;
      remembered.set(model, tone);
      free.delete(tone);
    }
    return new Map(
      models.map(({ model }, i) => [model, (i < TONES && remembered.get(model)) || 'tone-rest']),
    );
  }

  function showDays({ days, models }: RangeUsage, unit: Unit, tones: ReadonlyMap<string, string>): void {
    const byDay = group(models, ({ day = '' }) => day);
    const rowsOf = (day: string | undefined): readonly UsageRow[] => byDay.get(day ?? '') ?? [];
    const toneOf = ({ model = '' }: UsageRow): string => tones.get(model) ?? 'tone-rest';
    const names = new Map([...tones].toReversed().map(([model, tone]) => [tone, model]));
    const others = [...tones.values()].filter((tone) => tone === 'tone-rest').length;
    if (others > 1) names.set('tone-rest', `${others} others`);
    const series = [...names].toReversed().map(([tone, name]) => ({
      name,
      tone,
      values: days.map((day) => amount(figures.sum(rowsOf(day).filter((row) => toneOf(row) === tone)), unit)),
    }));
    series.sort((one, other) => Number(one.tone === 'tone-rest') - Number(other.tone === 'tone-rest'));
    const totals = days.map((_, i) => series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0));
    const most = Math.max(...totals);
    const whole = totals.reduce((sum, total) => sum + total, 0);
    const mostOn = days[totals.indexOf(most)] ?? '';
    const noun = { charged: 'charged', requests: 'requests', tokens: 'tokens' }[unit];

    fill(
      'legend',
      ...series.map(({ name, tone }) =>
        html('li', {}, html('i', { class: `swatch ${tone}` }), html('span', {}, name)),
      ),
    );
    plots.daily('daily', {
      days,
      series,
      summary: `${written(whole, unit)} ${noun} in ${days.length} days, by model; the most, ${written(most, unit)}, on ${figures.longDay(mostOn)}. Arrow keys go from day to day.`,
      axis: (value, distance) =>
        unit === 'charged' ? figures.axisMoney(value, distance) : figures.short(value),
      told(i) {
        const parts = series
          .map(({ name, tone, values }) => ({ name, tone, value: values[i] ?? 0 }))
          .filter(({ value }) => value > 0)
          .toReversed();
        return {
          headline: written(totals[i] ?? 0, unit),
          parts: parts.map(({ name, tone, value }) => ({ name, tone, value: written(value, unit) })),
          facts: facts(figures.sum(rowsOf(days[i])), unit),
        };
      },
    });
    fill(
      'daily-rows',
      ...days.toReversed().map((day) => {
        const sums = figures.sum(rowsOf(day));
        const cells = [
          ...[sums.requests, sums.errors, sums.aborted, sums.prompt + sums.completion].map((value) =>
            figures.count(value),
          ),
          figures.money(sums.charged),
          sums.cost === 0n ? '–' : figures.money(sums.cost),
        ];
        const head = html('th', { scope: 'row' }, figures.longDay(day));
        return html('tr', {}, head, ...cells.map((text) => html('td', { class: 'number' }, text)));
      }),
    );
  }

  interface Ranked {
    readonly name: string;
    readonly detail?: string;
    readonly tone: string;
    readonly rows: readonly UsageRow[];
    /** What is told of it before its usage. */
    readonly about?: readonly Fact[];
  }

  /** Draws the dearest ones, or, where nothing was charged, those with most requests; the rest as one. */
  function rank(id: string, noun: string, ranked: readonly Ranked[]): void {
    const order = ranked
      .map((one) => ({ ...one, sums: figures.sum(one.rows) }))
      .sort(
        (one, other) =>
          Number(other.sums.charged - one.sums.charged) || other.sums.requests - one.sums.requests,
      );
    const left = order.slice(RANKS);
    if (left.length > 1) {
      const rows = left.flatMap(({ rows }) => rows);
      const rest = { name: `${left.length} others`, tone: 'tone-rest', rows, sums: figures.sum(rows) };
      order.splice(RANKS, left.length, rest);
    }
    const byCharge = order.some(({ sums }) => sums.charged > 0n);
    const size = ({ charged, requests }: Sums): number => (byCharge ? Number(charged) : requests);
    const most = Math.max(...order.map(({ sums }) => size(sums)), 1);
    const ranks = order.map(({ name, detail, tone, about = [], sums }): Rank => ({
      name,
      ...(detail !== undefined && { detail }),
      tone,
      share: size(sums) / most,
      value: figures.money(sums.charged),
      note: `${figures.short(sums.requests)} ${sums.requests === 1 ? 'request' : 'requests'}`,
      told: { headline: figures.money(sums.charged), parts: about, facts: facts(sums, 'charged') },
    }));
    const first = ranks[0] ? `; the first, ${ranks[0].name}, ${ranks[0].value}` : '';
    plots.ranking(id, `Charged by ${noun}${first}. Arrow keys go from ${noun} to ${noun}.`, ranks);
    get(id).hidden = ranks.length === 0;
    get(`${id}-empty`).hidden = ranks.length > 0;
  }

  return {
    show(usage, unit) {
      const all = figures.sum(usage.models);
      const tones = tonesOf(usage.models);
      const nothing = all.requests === 0;
      for (const id of ['legend', 'daily', 'daily-details']) get(id).hidden = nothing;
      get('daily-empty').hidden = !nothing;
      get('daily-empty').textContent = `No usage in the last ${usage.days.length} days.`;
      showTiles(usage, all);
      if (!nothing) showDays(usage, unit, tones);

      const models = [...group(usage.models, ({ model = '' }) => model)];
      rank(
        'models',
        'model',
        models.map(([name, rows]) => ({ name, tone: tones.get(name) ?? 'tone-rest', rows })),
      );
      const keys = [...group(usage.keys, ({ account, key }) => JSON.stringify([account, key]))];
      rank(
        'keys',
        'key',
        keys.map(([id, rows]) => {
          const { account = '', key = '' } = rows[0] ?? {};
          const about = [
            { name: 'Account', value: account },
            { name: 'Key', value: key },
          ];
          return { name: usage.keyNames.get(id) ?? key, detail: account, tone: 'tone-0', rows, about };
        }),
      );
    },
  };
}
