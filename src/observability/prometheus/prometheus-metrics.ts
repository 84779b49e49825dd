import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';

import type { Hooks } from '../hooks.ts';
import { Registry } from './registry.ts';
import { type CustomerLabel, routerMetrics } from './router-metrics.ts';

export type { CustomerLabel } from './router-metrics.ts';

export interface PrometheusOptions {
  /**
   * Who may read the metrics: whatever is true lets a request in, else it is a 401.
   *
   * @default everybody: mount it where strangers don't come
   */
  readonly authorize?: (request: MetricsRequest) => unknown;
  /**
   * Labels of requests, tokens and money beside the model and the provider; each has as many values as you have customers.
   *
   * @default none
   */
  readonly labels?: readonly CustomerLabel[];
  /**
   * Series that one metric may have, so that no client can fill memory; what is more is counted in one whose labels are all `other`.
   *
   * @default 2000
   */
  readonly maxSeries?: number;
}

/** What there is to judge who asks for metrics. */
export interface MetricsRequest {
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
}

/** The metrics of a process: those of each router that has these hooks. */
export interface PrometheusMetrics {
  /** For the `hooks` of the router. */
  readonly hooks: Hooks;
  /** For Express, Connect and `http.createServer`. */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** For hosts that give a `Request` and want a `Response`. */
  readonly fetch: (request: Request) => Promise<Response>;
  text(): string;
}

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
const CUSTOMER_LABELS: readonly string[] = ['account', 'key'] satisfies CustomerLabel[];

/**
 * Counts what routers do, as Prometheus reads it. Each process counts for itself: scrape every one of them.
 *
 * @throws {TypeError} naming the option that can't be right
 */
export function createPrometheusMetrics(options: PrometheusOptions = {}): PrometheusMetrics {
  const { authorize, labels = [], maxSeries = 2000 } = options;
  if (authorize !== undefined && typeof authorize !== 'function')
    throw new TypeError('authorize must be a function');
  if (!Array.isArray(labels) || labels.some((label) => !CUSTOMER_LABELS.includes(label))) {
    throw new TypeError(`labels must be of 'account' and 'key', got ${JSON.stringify(labels)}`);
  }
  if (!Number.isSafeInteger(maxSeries) || maxSeries < 2) {
    throw new TypeError(`maxSeries must be an integer of at least 2, got ${maxSeries}`);
  }
  const registry = new Registry(maxSeries);
  const hooks = routerMetrics(registry, [...new Set(labels)]);
  const text = (): string => registry.text();

  async function answer(method: string, headers: IncomingHttpHeaders): Promise<MetricsResponse> {
    if (method !== 'GET' && method !== 'HEAD') {
      return { status: 405, headers: { allow: 'GET, HEAD' }, body: 'Metrics are read by GET.\n' };
    }
    try {
      if (authorize && !(await authorize({ headers })))
        return textResponse(401, 'These metrics are not for you.\n', { 'www-authenticate': 'Bearer' });
    } catch {
      return textResponse(500, 'Who may read these metrics could not be found out.\n');
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
