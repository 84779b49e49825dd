/**
 * Logs, metrics and traces of a router, side by side: pino, Prometheus and OpenTelemetry.
 *
 *     npm run example -- observability
 *     curl http://localhost:8787/metrics     in a second terminal
 *
 * `prometheus.yml` is for a Prometheus that reads them, `dashboard.json` for a Grafana that shows them.
 */
import { createChatCompletionsRouter } from 'chat-completions-router';
import { openTelemetryHooks } from 'chat-completions-router/opentelemetry';
import { createPrometheusMetrics } from 'chat-completions-router/prometheus';
import express from 'express';
import { pino } from 'pino';
import { announce, models, port, providers } from '../demo/demo.ts';
import { logHooks } from './log-hooks.ts';
import { startTracing } from './tracing.ts';

const tracing = startTracing(); // before anything asks for a tracer
const metrics = createPrometheusMetrics(); // in your app: with `authorize`, or on a port of its own

const router = createChatCompletionsRouter({
  store: 'memory:',
  providers,
  models,
  hooks: [logHooks(pino()), metrics.hooks, openTelemetryHooks()],
});

const app = express();
app.use('/v1', router);
app.get('/metrics', metrics.handler);

const server = app.listen(port, '127.0.0.1', (error) => {
  if (error) throw error;
  void announce(router, server);
});

async function close(): Promise<void> {
  server.close(); // takes no new connections
  await router.close(); // lets streams end, and charges them
  await tracing.shutdown(); // spans wait for their charges, so after them
  server.closeIdleConnections();
}

process.once('SIGINT', close);
process.once('SIGTERM', close);
