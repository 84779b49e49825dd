import { targetsWithLabels } from '../catalog/matching-targets.ts';
import type { Model, Target } from '../catalog/model.ts';
import { architectureOf, type ModelRecord, pricingRecord } from '../catalog/model-record.ts';
import type { RequiredLabel } from '../options/labels.ts';
import type { CircuitBreaker, CircuitBreakers } from '../upstream/circuit-breaker.ts';
import type { Histogram } from '../upstream/histogram.ts';
import { RECENT_MINUTES } from '../upstream/target-history.ts';

/** The targets of a model, as OpenRouter's `GET /models/{author}/{slug}/endpoints` shows them. */
export interface ModelEndpointsRecord {
  readonly id: string;
  readonly name: string;
  readonly created: number;
  readonly description: string;
  readonly architecture: Omit<ModelRecord['architecture'], 'tokenizer' | 'instruct_type'> & {
    readonly tokenizer: string | null;
    readonly instruct_type: string | null;
  };
  readonly endpoints: readonly TargetRecord[];
}

/** What clients learn of a target: its provider, but not the provider's name for the model. */
interface TargetRecord {
  readonly name: string;
  readonly model_id: string;
  readonly model_name: string;
  readonly provider_name: string;
  /** For `provider.order`, `only` and `ignore`. */
  readonly tag: string;
  /** 0 if unknown: OpenRouter's client requires a number. */
  readonly context_length: number;
  readonly max_completion_tokens: number | null;
  readonly max_prompt_tokens: null;
  readonly pricing: ModelRecord['pricing'];
  readonly quantization: string;
  /** Empty if unknown. */
  readonly supported_parameters: readonly string[];
  /** 0, or -5 while it is ejected. */
  readonly status: 0 | -5;
  /** Share of the requests that didn't fail, in percent; null without requests. */
  readonly uptime_last_5m: number | null;
  readonly uptime_last_30m: number | null;
  /** This process remembers an hour. */
  readonly uptime_last_1d: null;
  /** Cached tokens of prompts have a price of their own. */
  readonly supports_implicit_caching: boolean;
  /** All of its values, where the target takes the parameter. */
  readonly supports_tool_choice: Readonly<Record<'auto' | 'function' | 'none' | 'required', boolean>>;
  /** To the first event, in ms; null without answers. */
  readonly latency_last_30m: Percentiles | null;
  /** Tokens a second; null without answers. */
  readonly throughput_last_30m: Percentiles | null;
}

/** What this share of the answers reached, or did better. */
interface Percentiles {
  readonly p50: number;
  readonly p75: number;
  readonly p90: number;
  readonly p99: number;
}

const SHOWN_MINUTES = 30;
const EJECTED = -5;

/** @param require - labels that the caller's targets must have: others aren't shown */
export function endpointsRecord(
  model: Model,
  require: readonly RequiredLabel[],
  breakers: CircuitBreakers,
): ModelEndpointsRecord {
  const { id, info } = model;
  const { tokenizer = null, instruct_type = null, ...modalities } = architectureOf(info);
  const now = Date.now();
  return {
    id,
    name: info.name,
    created: info.created,
    description: info.description ?? '',
    architecture: { ...modalities, tokenizer, instruct_type },
    endpoints: targetsWithLabels(model, require).map((target) => targetRecord(target, model, breakers, now)),
  };
}

function targetRecord(
  target: Target,
  { id, info }: Model,
  breakers: CircuitBreakers,
  now: number,
): TargetRecord {
  const { provider, price, output, labels, parameters } = target;
  const breaker = breakers.find(target);
  const byHand = breakers.byHand.of(target, now);
  const takesChoice = parameters?.has('tool_choice') ?? false;
  return {
    name: `${provider.name} | ${id}`,
    model_id: id,
    model_name: info.name,
    provider_name: provider.name,
    tag: provider.name,
    context_length: output.contextWindow ?? info.contextWindow ?? 0,
    max_completion_tokens: output.maxTokens ?? info.maxOutputTokens ?? null,
    max_prompt_tokens: null,
    pricing: pricingRecord(price),
    quantization: labels.quantization ?? 'unknown',
    supported_parameters: [...(parameters ?? [])],
    status: byHand || (breaker && breaker.retryAt !== 0) ? EJECTED : 0,
    supports_implicit_caching: price.cachedInput < price.input,
    supports_tool_choice: {
      auto: takesChoice,
      function: takesChoice,
      none: takesChoice,
      required: takesChoice,
    },
    uptime_last_1d: null,
    ...measured(breaker, now),
  };
}

type Measured = Pick<
  TargetRecord,
  'uptime_last_5m' | 'uptime_last_30m' | 'latency_last_30m' | 'throughput_last_30m'
>;

function measured(breaker: CircuitBreaker | undefined, now: number): Measured {
  const uptime = (minutes: number): number | null => {
    const { requests = 0, errors = 0 } = breaker?.sums(now, minutes) ?? {};
    return requests === 0 ? null : Number((100 * (1 - errors / requests)).toFixed(2));
  };
  const sums = breaker?.sums(now, SHOWN_MINUTES);
  return {
    uptime_last_5m: uptime(RECENT_MINUTES),
    uptime_last_30m: uptime(SHOWN_MINUTES),
    latency_last_30m: percentiles(sums?.latencies, 'least'),
    throughput_last_30m: percentiles(sums?.speeds, 'most'),
  };
}

function percentiles(values: Histogram | undefined, best: 'least' | 'most'): Percentiles | null {
  if (!values || values.total === 0) return null;
  const reached = (share: number): number => values.percentile(best === 'least' ? share : 1 - share) ?? 0;
  return { p50: reached(0.5), p75: reached(0.75), p90: reached(0.9), p99: reached(0.99) };
}
