import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';

import type { Hooks } from '../hooks.ts';
import { Registry } from './registry.ts';
import { type CustomerLabel, routerMetrics } from './router-metrics.ts';

export type { CustomerLabel } from './router-metrics.ts';

export interface PrometheusOptions {
  /** Returns whether a request may read the metrics: any truthy value; otherwise the answer is a 401.
   *
   * @default every request may: don't expose it publicly
   */
  readonly authorize?: (request: MetricsRequest) => unknown;
  /** More labels for requests, tokens and amounts, besides model and provider; each has one value per customer.
   *
   * @default none
   */
  readonly labels?: readonly CustomerLabel[];
  /** Most series per metric, so that no client can fill memory; the rest is counted in a series whose labels are all `other`.
   *
   * @default 2000
   */
  readonly maxSeries?: number;
}

/** A request for metrics, for `authorize`. */
export interface MetricsRequest {
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
}

/** The metrics of all routers that have these hooks. */
export interface PrometheusMetrics {
  /** For the router's option `hooks`. */
  readonly hooks: Hooks;
  /** For Express, Connect and `http.createServer`. */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** For frameworks that pass a `Request` and expect a `Response`. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** The metrics in Prometheus's text format. */
  text(): string;
}

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
const CUSTOMER_LABELS: readonly string[] = ['account', 'key'] satisfies CustomerLabel[];

/** Collects metrics of routers for Prometheus. Each process has its own: scrape all of them.
 *
 * @throws {TypeError} naming the invalid option
 */
export function createPrometheusMetrics(options: PrometheusOptions = {}): PrometheusMetrics {
  const { authorize, labels = [], maxSeries = 2000 } = options;
  if (authorize !== undefined && typeof authorize !== 'function')
    throw new TypeError('authorize must be a function');
  if (!Array.isArray(labels) || labels.some((label) => !CUSTOMER_LABELS.includes(label))) {
    throw new TypeError(`labels must contain only 'account' and 'key', got ${JSON.stringify(labels)}`);
  }
  if (!Number.isSafeInteger(maxSeries) || maxSeries < 2) {
    throw new TypeError(`maxSeries must be an integer of at least 2, got ${maxSeries}`);
  }
  const registry = new Registry(maxSeries);
  const hooks = routerMetrics(registry, [...new Set(labels)]);
  const text = (): string => registry.text();

  async function answer(method: string, headers: IncomingHttpHeaders): Promise<MetricsResponse> {
    if (method !== 'GET' && method !== 'HEAD') {
      return { status: 405, headers: { allow: 'GET, HEAD' }, body: 'Use GET to read metrics.\n' };
    }
    try {
      if (authorize && !(await authorize({ headers })))
        return textResponse(401, 'Unauthorized.\n', { 'www-authenticate': 'Bearer' });
    } catch {
      return textResponse(500, 'The authorize hook failed.\n');
    }
    return {
      status: 200,
      headers: { 'content-type': CONTENT_TYPE, 'cache-control': 'no-store' },
      body: method === 'HEAD' ? null : text(),
    };
  }

  return {
    hooks,
    text,
    handler: async (request, response) => {
      const { status, headers, body } = await answer(request.method ?? 'GET', request.headers);
      response.writeHead(status, headers);
      response.end(body ?? undefined);
    },
    fetch: async (request) => {
      const { body, ...head } = await answer(request.method, Object.fromEntries(request.headers));
      return new Response(body, head);
    },
  };
}

interface MetricsResponse {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string | null;
}

function textResponse(status: number, body: string, headers: Record<string, string> = {}): MetricsResponse {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers }, body };
}
