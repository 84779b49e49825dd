import {
  type Attributes,
  type Context,
  context,
  propagation,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';

import type {
  AttemptEnded,
  AttemptStarted,
  EndpointName,
  Hooks,
  RequestStarted,
  ResponseEnded,
  Settled,
} from '../hooks.ts';
import { contentAttributes } from './content.ts';
import { attemptAttributes, attemptError, providerName, responseError } from './conventions.ts';

export interface SpansOptions {
  readonly tracer: Tracer;
  readonly propagate: boolean;
  readonly chargeWaitMs: number;
}

/** The open spans of a request. */
interface TracedSpans {
  readonly span: Span;
  readonly context: Context;
  /** Spans of its attempts, in order; filled only with `propagate`, which starts them early. */
  readonly attempts: Span[];
  ended?: ResponseEnded;
  settled?: Settled;
  timer?: NodeJS.Timeout;
}

const ROUTES: Readonly<Record<EndpointName, string>> = {
  completions: '/chat/completions',
  models: '/models',
  model: '/models/{id}',
  credits: '/credits',
  generation: '/generation',
  key: '/key',
  usage: '/usage',
  metered: '/{metered}',
};

const METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Hooks that trace: one span per request, with a child span for each request to a provider.
 *
 * The charge is known shortly after the response: spans wait for it, and then end with the time of the
 * response.
 */
export function spanHooks({
  tracer,
  propagate,
  chargeWaitMs,
}: SpansOptions): Pick<Hooks, 'upstreamHeaders'> &
  Required<Pick<Hooks, 'onRequest' | 'onContent' | 'onResponse' | 'onSettled'>> {
  const running = new Map<string, TracedSpans>();

  /** Ends all spans of a request. */
  function end({ requestId, startedAt, durationMs }: ResponseEnded, traced: TracedSpans): void {
    running.delete(requestId);
    clearTimeout(traced.timer);
    endAttempts(traced);
    addHookCalls(tracer, traced);
    endRequest(traced);
    traced.span.end(startedAt + durationMs);
  }

  function endAttempts({ ended, settled, attempts, context: parent }: TracedSpans): void {
    for (const [index, attempt] of ended?.attempts.entries() ?? []) {
      const span = attempts[index] ?? startAttempt(attempt, parent);
      describeAttempt(span, attempt);
      if (ended && index === ended.attempts.length - 1) describeAnswer(span, attempt, ended, settled);
      span.end(attempt.startedAt + attempt.durationMs);
    }
  }

  function startAttempt(attempt: AttemptStarted | AttemptEnded, parent: Context): Span {
    const attributes = attemptAttributes(attempt);
    const { startedAt: startTime } = attempt;
    return tracer.startSpan(
      `chat ${attempt.model}`,
      { kind: SpanKind.CLIENT, startTime, attributes },
      parent,
    );
  }

  return {
    onRequest: (started) => {
      const { parent, kind } = parentOf(started);
      const { endpoint, startedAt: startTime } = started;
      const method = METHODS.includes(started.method) ? started.method : 'HTTP';
      const name = endpoint ? `${method} ${ROUTES[endpoint]}` : method;
      const span = tracer.startSpan(
        name,
        { kind, startTime, attributes: requestAttributes(started) },
        parent,
      );
      running.set(started.requestId, { span, context: trace.setSpan(parent, span), attempts: [] });
    },
    onContent: (content) => {
      const span = running.get(content.requestId)?.span;
      if (span?.isRecording()) span.setAttributes(contentAttributes(content));
    },
    onResponse: (ended) => {
      const traced = running.get(ended.requestId);
      if (!traced) return;
      traced.ended = ended;
      if (!ended.admitted || traced.settled) {
        end(ended, traced);
        return;
      }
      traced.timer = setTimeout(() => {
        end(ended, traced);
      }, chargeWaitMs);
      traced.timer.unref();
    },
    onSettled: (settled) => {
      const traced = running.get(settled.requestId);
      if (!traced) return;
      traced.settled = settled;
      if (traced.ended) end(traced.ended, traced);
    },
    ...(propagate && {
      upstreamHeaders: (attempt: AttemptStarted) => {
        const traced = running.get(attempt.requestId);
        if (!traced) return undefined;
        const span = startAttempt(attempt, traced.context);
        traced.attempts[attempt.index] = span;
        const headers: Record<string, string> = {};
        // Baggage is the app's own, and may name customers.
        propagation.inject(trace.setSpan(propagation.deleteBaggage(traced.context), span), headers);
        return headers;
      },
    }),
  };
}

/** The app's own span is the parent, otherwise the client's trace context. */
function parentOf(started: RequestStarted): { readonly parent: Context; readonly kind: SpanKind } {
  const active = context.active();
  const local = trace.getSpanContext(active);
  if (local) return { parent: active, kind: local.isRemote ? SpanKind.SERVER : SpanKind.INTERNAL };
  const { traceparent, tracestate } = started;
  const carrier = { ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) };
  return { parent: traceparent ? propagation.extract(active, carrier) : active, kind: SpanKind.SERVER };
}

function requestAttributes({
  requestId,
  method,
  path,
  endpoint,
  clientRequestId,
}: RequestStarted): Attributes {
  return {
    'http.request.method': METHODS.includes(method) ? method : '_OTHER',
    'url.path': path,
    'ccr.request_id': requestId,
    ...(endpoint && { 'http.route': ROUTES[endpoint] }),
    ...(clientRequestId !== undefined && { 'ccr.client_request_id': clientRequestId }),
  };
}

/** Sets the final attributes of a request's span, with its charge. */
function endRequest({ span, ended, settled }: TracedSpans): void {
  if (!ended) return;
  const { status, account, key, model, provider, sticky, waited, ending } = ended;
  const errorType = responseError(ended);
  span.setAttributes({
    'http.response.status_code': status,
    ...(account !== undefined && { 'ccr.account': account }),
    ...(key !== undefined && { 'ccr.key': key }),
    ...(model !== undefined && { 'ccr.model': model }),
    ...(provider !== undefined && { 'gen_ai.provider.name': providerName(provider) }),
    ...(sticky && { 'ccr.sticky': sticky }),
    ...(waited && { 'ccr.waited_ms': waited.ms, 'ccr.wait_outcome': waited.outcome }),
    ...(ending && { 'ccr.ending': ending }),
    ...(errorType !== undefined && { 'error.type': errorType }),
    ...(settled && {
      'ccr.charged_usd': Number(settled.charged),
      'ccr.written_off_usd': Number(settled.writtenOff),
      'ccr.voided': settled.voided,
      'ccr.usage_source': settled.usageSource,
      ...(settled.cost !== undefined && { 'ccr.cost_usd': Number(settled.cost) }),
      ...dimensionAttributes(settled),
    }),
  });
  // The conventions mark a server span as an error only for the server's faults, not the client's.
  if (errorType !== undefined && (status >= 500 || status < 400))
    span.setStatus({ code: SpanStatusCode.ERROR });
}

/** A span for each call of the app's `route` and `guard`. */
function addHookCalls(tracer: Tracer, { ended, context: parent }: TracedSpans): void {
  for (const { hook, startedAt, durationMs, result } of ended?.hookCalls ?? []) {
    const attributes = { 'ccr.hook': hook, 'ccr.hook.result': result };
    const options = { kind: SpanKind.INTERNAL, startTime: startedAt, attributes };
    const span = tracer.startSpan(hook, options, parent);
    if (result === 'failed') span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(startedAt + durationMs);
  }
}

/** The end user as `ccr.user`, the tag `feature` as `ccr.tag.feature`. */
function dimensionAttributes({ dimensions = {} }: Settled): Attributes {
  const named = Object.entries(dimensions).map(([name, value]) => [`ccr.${name.replace(':', '.')}`, value]);
  return Object.fromEntries(named);
}

function describeAttempt(span: Span, attempt: AttemptEnded): void {
  const { status, upstreamRequestId, upstreamErrorCode } = attempt;
  const errorType = attemptError(attempt);
  span.setAttributes({
    ...(status !== undefined && { 'http.response.status_code': status }),
    ...(upstreamRequestId !== undefined && { 'ccr.upstream_request_id': upstreamRequestId }),
    ...(errorType !== undefined && { 'error.type': errorType }),
    ...(upstreamErrorCode !== undefined && { 'ccr.upstream_error_code': upstreamErrorCode }),
  });
  if (errorType !== undefined) span.setStatus({ code: SpanStatusCode.ERROR });
}

/** Sets the attributes of the answer that the client got, on the last attempt. */
function describeAnswer(span: Span, attempt: AttemptEnded, ended: ResponseEnded, settled?: Settled): void {
  const { stream, firstByteMs, finishReason } = ended;
  const usage = settled?.usageSource === 'upstream' ? settled.usage : undefined;
  const sentMs = attempt.startedAt - ended.startedAt;
  span.setAttributes({
    'gen_ai.request.stream': stream,
    ...(finishReason !== undefined && { 'gen_ai.response.finish_reasons': [finishReason] }),
    ...(stream &&
      firstByteMs !== undefined && {
        'gen_ai.response.time_to_first_chunk': Math.max(0, firstByteMs - sentMs) / 1000,
      }),
    ...(usage && {
      'gen_ai.usage.input_tokens': usage.promptTokens,
      'gen_ai.usage.output_tokens': usage.completionTokens,
      'gen_ai.usage.cache_read.input_tokens': usage.cachedTokens,
      'gen_ai.usage.cache_creation.input_tokens': usage.cacheWriteTokens,
      'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens,
    }),
  });
}
