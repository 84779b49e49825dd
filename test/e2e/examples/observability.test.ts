import { readFileSync } from 'node:fs';

import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';

import { createPrometheusMetrics } from '../../../src/prometheus.ts';
import { startExample } from '../../helpers/example.ts';
import { parsePrometheus, valueOf } from '../../helpers/prometheus-text.ts';

describe('the example of observability', () => {
  it('logs, counts and traces a completion, and shows no key', { timeout: 60_000 }, async () => {
    const example = await startExample('observability');
    let printed = '';
    example.process.stdout.setEncoding('utf8').on('data', (piece: string) => (printed += piece));
    const openai = new OpenAI({ baseURL: example.baseURL, apiKey: example.apiKey, maxRetries: 0 });
    const { _request_id: requestId } = await openai.chat.completions.create({
      model: 'demo/parrot',
      messages: [{ role: 'user', content: 'A secret of mine' }],
    });
    const log = (): Record<string, unknown>[] =>
      printed
        .split('\n')
        .filter((line) => line.startsWith('{"level"'))
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    await expect.poll(log).toHaveLength(2);
    expect(log().find(({ msg }) => msg === 'response')).toMatchObject({
      level: 30,
      requestId,
      endpoint: 'completions',
      status: 200,
      account: 'demo',
      model: 'demo/parrot',
      provider: 'parrot',
    });
    expect(log().find(({ msg }) => msg === 'settled')).toMatchObject({ requestId, ending: 'finished' });

    const scraped = await fetch(new URL('/metrics', example.baseURL));
    const metrics = parsePrometheus(await scraped.text());
    expect(valueOf(metrics, 'ccr_requests_total', { model: 'demo/parrot', status: '200' })).toBe(1);

    expect(await example.stop()).toBe(0);
    expect(printed).toContain("name: 'POST /chat/completions'");
    expect(printed).toContain("name: 'chat parrot-1'");
    expect(printed).toContain(`'ccr.request_id': '${requestId}'`);
    expect(printed).not.toMatch(/sk-|secret of mine/);
  });
});

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly datasource: unknown;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly {
    readonly refId: string;
    readonly expr: string;
    readonly legendFormat: string;
  }[];
}

describe('the dashboard of Grafana', () => {
  const dashboard = JSON.parse(readFileSync('examples/observability/dashboard.json', 'utf8')) as {
    readonly uid: string;
    readonly title: string;
    readonly schemaVersion: number;
    readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] };
    readonly panels: readonly Panel[];
  };
  const { panels, templating } = dashboard;
  const exprs = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  const queries = [...exprs, ...templating.list.map(({ query }) => query)];
  const page = readFileSync('docs/observability.md', 'utf8');
  const labelsOf = new Map(
    [...page.matchAll(/^\| `(ccr_\w+)`(?: ●)? +\| \w+ +\|([^|]*)\|/gm)].map(([, name = '', labels = '']) => [
      name,
      [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label),
    ]),
  );

  it('asks for metrics that exist, and for each of those that gateways have', () => {
    const served = parsePrometheus(createPrometheusMetrics().text());
    const names = [...served].flatMap(([name, { type }]) =>
      type === 'histogram' ? [`${name}_bucket`] : [name],
    );
    const asked = queries.flatMap((query) => query.match(/\bccr_\w+/g) ?? []);
    expect(names).toEqual(expect.arrayContaining(asked));
    const unasked = names.filter((name) => !asked.includes(name));
    expect(unasked.toSorted()).toEqual([
      'ccr_attempt_duration_seconds_bucket',
      // Only of gateways with a `route` or `guard`.
      'ccr_hook_duration_seconds_bucket',
      // Only of models with `wait`.
      'ccr_requests_waiting',
      // Only of routers with `sticky`.
      'ccr_sticky_requests_total',
      'ccr_target_changes_total',
      'ccr_target_failures_in_a_row',
      'ccr_wait_seconds_bucket',
    ]);
  });

  it('groups and selects by labels that the metrics have', () => {
    for (const expr of exprs) {
      const [, name = ''] = /\b(ccr_\w+?)(?:_bucket)?\b(?!\w)/.exec(expr) ?? [];
      const known = [...(labelsOf.get(name) ?? []), 'le'];
      const grouped = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, labels = '']) => labels.split(/, ?/));
      const selected = [...expr.matchAll(/(\w+)(?:=~|!=|=)"/g)].map(([, label = '']) => label);
      expect(known, expr).toEqual(expect.arrayContaining([...grouped, ...selected]));
    }
    for (const { targets } of panels) {
      for (const { expr, legendFormat } of targets) {
        const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label);
        for (const label of shown) expect(expr).toMatch(new RegExp(`by \\([^)]*\\b${label}\\b`));
      }
    }
  });

  it('closes what its queries open', () => {
    for (const expr of exprs) {
      for (const [open, close] of ['()', '{}', '[]']) {
        expect(expr.split(open!).length, expr).toBe(expr.split(close!).length);
      }
      if (expr.includes('rate(')) expect(expr).toMatch(/\[\$__rate_interval\]/);
    }
  });

  it('has what Grafana needs to import it, and panels that don’t overlap', () => {
    expect(dashboard).toMatchObject({ uid: 'chat-completions-router', title: 'chat-completions-router' });
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(36);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const taken = new Set<string>();
    for (const { title, type, datasource, gridPos, targets } of panels) {
      expect(['timeseries', 'stat']).toContain(type);
      expect(datasource).toEqual({ type: 'prometheus', uid: '${datasource}' });
      expect(new Set(targets.map(({ refId }) => refId)).size, title).toBe(targets.length);
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x} ${y}`), title).toBe(false);
          taken.add(`${x} ${y}`);
        }
      }
    }
  });
});
