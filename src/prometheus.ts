import './platform/require-node.ts';

export {
  createPrometheusMetrics,
  type CustomerLabel,
  type MetricsRequest,
  type PrometheusMetrics,
  type PrometheusOptions,
} from './observability/prometheus/prometheus-metrics.ts';
