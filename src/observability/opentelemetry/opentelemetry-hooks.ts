import { type Meter, metrics, trace, type Tracer } from '@opentelemetry/api';

import type { Hooks } from '../hooks.ts';
import { metricHooks } from './instruments.ts';
import { spanHooks } from './spans.ts';

export interface OpenTelemetryOptions {
  /** @default that of the global provider */
  readonly tracer?: Tracer;
  /** @default that of the provider that is global when this is called */
  readonly meter?: Meter;
  /**
   * Whether providers are told the trace, in the headers of the global propagator (`traceparent`, `tracestate`). Baggage
   * stays here.
   *
   * @default false
   */
  readonly propagate?: boolean;
  /**
   * How long spans of a request that is over wait for its charge, in ms. Its time is the response's either way; what is
   * posted later, as after an outage of the store, is on no span.
   *
   * @default 30000
   */
  readonly chargeWaitMs?: number;
  /**
   * Whether the span of a request has what was asked and answered, `gen_ai.input.messages` and `gen_ai.output.messages`:
   * personal data, for everybody who reads your traces.
   *
   * @default false
   */
  readonly recordContent?: boolean;
  /**
   * The longest body that is recorded, in bytes, 1 to 1,048,576; of a longer one the span says `ccr.content.truncated`.
   *
   * @default 65536
   */
  readonly maxContentBytes?: number;
}

const NAME = 'chat-completions-router';

/**
 * Hooks that trace and measure by the GenAI semantic conventions.
 *
 * Call it once the SDK is started. Prompts and answers are on no span without `recordContent`.
 *
 * @throws {TypeError} naming the option that can't be right
 */
export function openTelemetryHooks(options: OpenTelemetryOptions = {}): Hooks {
  const { tracer, meter, propagate = false, chargeWaitMs = 30_000 } = options;
  const { recordContent = false, maxContentBytes } = options;
  for (const [name, value] of Object.entries({ propagate, recordContent })) {
    if (typeof value !== 'boolean') throw new TypeError(`${name} must be a boolean, got ${String(value)}`);
  }
  if (typeof chargeWaitMs !== 'number' || !(chargeWaitMs > 0 && chargeWaitMs < 2 ** 31)) {
    throw new TypeError(`chargeWaitMs must be a number of milliseconds, got ${String(chargeWaitMs)}`);
  }
  const traced = spanHooks({ tracer: tracer ?? trace.getTracer(NAME), propagate, chargeWaitMs });
  const measured = metricHooks(meter ?? metrics.getMeter(NAME));
  return {
    keepsDefaultLog: true,
    ...measured,
    ...(traced.upstreamHeaders && { upstreamHeaders: traced.upstreamHeaders }),
    ...(recordContent && { onContent: traced.onContent }),
    ...(maxContentBytes !== undefined && { maxContentBytes }),
    onRequest: (started) => {
      measured.onRequest(started);
      traced.onRequest(started);
    },
    onResponse: (ended) => {
      measured.onResponse(ended);
      traced.onResponse(ended);
    },
    onSettled: (settled) => {
      measured.onSettled(settled);
      traced.onSettled(settled);
    },
  };
}
