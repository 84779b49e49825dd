import './platform/require-node.ts';

export {
  openTelemetryHooks,
  type OpenTelemetryOptions,
} from './observability/opentelemetry/opentelemetry-hooks.ts';
