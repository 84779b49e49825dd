import { type Meter, metrics, trace, type Tracer } from '@opentelemetry/api';

import type { Hooks } from '../hooks.ts';
import { metricHooks } from './instruments.ts';
import { spanHooks } from './spans.ts';

export interface OpenTelemetryOptions {
  /** @default the global provider's */
  readonly tracer?: Tracer;
  /** @default the global provider's at the time of the call */
  readonly meter?: Meter;
  /** Whether requests to providers carry the trace, in the headers of the global propagator (`traceparent`, `tracestate`).
   * Baggage is not sent.
   *
   * @default false
   */
  readonly propagate?: boolean;
  /** How long the spans of a finished request wait for its charge, in ms. Their end time is the response's in any case. A
   * charge that is posted later, e.g. after an outage of the store, is on no span.
   *
   * @default 30000
   */
  readonly chargeWaitMs?: number;
  /** Whether the span of a request has its messages, `gen_ai.input.messages` and `gen_ai.output.messages`: personal data,
   * for all readers of your traces.
   *
   * @default false
   */
  readonly recordContent?: boolean;
  /** The longest body that is recorded, in bytes, 1 to 1,048,576; for a longer one the span has `ccr.content.truncated`.
   *
   * @default 65536
   */
  readonly maxContentBytes?: number;
}

const NAME = 'chat-completions-router';

/** Makes hooks that trace and measure by the GenAI semantic conventions.
 *
 * Call it after the SDK is started. Spans contain no prompts and answers without `recordContent`.
 *
 * @throws {TypeError} naming the invalid option
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
