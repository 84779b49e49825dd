import { NO_MARKUP } from '../../src/metering/markup.ts';
import { createCatalog } from '../../src/catalog/catalog.ts';
import type { Model, Target } from '../../src/catalog/model.ts';
import { quoteFor, type Quote } from '../../src/metering/estimate.ts';
import { resolveAnswer } from '../../src/options/resolve-options.ts';
import type { Random } from './random.ts';

/** In pico-dollars per token; 1 and 3 USD per million. */
const INPUT = 1_000_000n;
const OUTPUT = 3_000_000n;
const MODEL_OUTPUT_TOKENS = 2000;
/** From the last chunk of an answer to its end. */
export const END_MS = 20;

const TIMEOUTS = { connectMs: 10_000, firstByteMs: 600_000, idleMs: 120_000, totalMs: 3_600_000 };

export const MODEL: Model = createCatalog(
  {
    providers: { provider: { baseURL: 'http://provider.test/v1', apiKey: () => 'secret' } },
    models: {
      model: {
        targets: ['provider/model'],
        pricing: { input: '1', output: '3' },
        maxOutputTokens: MODEL_OUTPUT_TOKENS,
      },
    },
  },
  {
    timeouts: TIMEOUTS,
    proxy: undefined,
    markup: NO_MARKUP,
    prices: undefined,
    modelInfo: undefined,
    answer: resolveAnswer({}, 'answer'),
    sticky: undefined,
  },
).get('model')!;
export const TARGET: Target = MODEL.targets[0];

/** The contents of a request body. */
export interface Body {
  readonly promptChars: number;
  readonly outputCap: number;
  readonly stream: boolean;
}

/** Steps of a request, in order. */
export const STEPS = ['admit', 'connect', 'head', 'answer', 'end'] as const;
export type Step = (typeof STEPS)[number];

/** When a client disconnects: this long after a step has begun. */
export interface Leave {
  readonly step: Step;
  readonly afterMs: number;
}

/** A request, the behaviour of the provider, and when the client disconnects. */
export interface Plan extends Body {
  /** Prompt tokens, as counted by the provider. */
  readonly promptTokens: number;
  readonly connectMs: number;
  readonly answer: 'none' | 'error status' | 'whole';
  readonly headMs: number;
  /** Tokens of each chunk, at four characters per token. */
  readonly chunks: readonly number[];
  readonly gapMs: number;
  /** The provider ignores the output limit. */
  readonly overDelivers: boolean;
  readonly end: 'done' | 'cut' | 'stall';
  /** Usage reported at the end: the true counts, none, zero, three times the output, or nonsense. */
  readonly usage: 'true' | 'omitted' | 'zero' | 'more' | 'absurd';
  readonly leaves: Leave | undefined;
}

export interface Habits {
  /** Maximum duration of a request, in ms. */
  readonly longestMs: number;
  readonly refuses: number;
  readonly cuts: number;
  readonly omits: number;
  /** Providers whose counts differ from the estimates. */
  readonly lies: number;
  /** Prompts with more tokens than a quarter of their characters. */
  readonly dense: number;
  /** Ignores the limit it was given. */
  readonly overDelivers: number;
  readonly clientsLeave: number;
  /** With an idempotency key; such requests may be repeated. */
  readonly clientsNameRequests: number;
}

export function planBody(random: Random): Body {
  return {
    promptChars: random.between(1, 400),
    outputCap: random.between(1, MAX_OUTPUT),
    stream: random.chance(0.7),
  };
}

/** Maximum output limit; the excess that some providers write; the further excess that others report. */
const MAX_OUTPUT = 60;
const MAX_OVER = 4;
const TOLD_MORE = 3;
/** Maximum of seemingly hidden tokens that false usage can cause. */
export const MAX_HIDDEN = MAX_OUTPUT * MAX_OVER * (TOLD_MORE - 1);

export function planRequest(random: Random, habits: Habits, body: Body): Plan {
  const { promptChars, outputCap } = body;
  const over = random.chance(habits.overDelivers) ? random.between(2, MAX_OVER) : 1;
  const tokens = random.between(0, outputCap * over);
  const count = Math.min(tokens, random.between(1, 6));
  const chunks = Array.from(
    { length: count },
    (_, n) => Math.floor(tokens / count) + (n < tokens % count ? 1 : 0),
  );
  const connectMs = Math.floor(random.skewed(0, 200));
  const headMs = Math.floor(random.skewed(1, habits.longestMs / 4));
  const gapMs = Math.floor(random.skewed(0, (habits.longestMs * 0.75) / Math.max(1, count)));
  const estimate = promptTokensOf(body);
  const lasting: Readonly<Record<Step, number>> = {
    admit: Math.floor(random.skewed(0, 500)),
    connect: connectMs,
    head: headMs,
    answer: gapMs * count,
    end: END_MS,
  };
  const step = random.pick(STEPS);
  return {
    ...body,
    promptTokens: random.chance(habits.dense) ? random.between(estimate, promptChars + 8) : estimate,
    connectMs,
    answer: random.chance(habits.refuses) ? random.pick(['none', 'error status']) : 'whole',
    headMs,
    chunks,
    gapMs,
    overDelivers: over > 1,
    end: random.chance(habits.cuts) ? random.pick(['cut', 'stall']) : 'done',
    usage: random.chance(habits.lies)
      ? random.pick(['zero', 'more', 'absurd'])
      : random.chance(habits.omits)
        ? 'omitted'
        : 'true',
    leaves: random.chance(habits.clientsLeave)
      ? { step, afterMs: random.below(1 + lasting[step]) }
      : undefined,
  };
}

/** A request that its provider rejects. */
export const KNOCK: Plan = {
  promptChars: 1,
  outputCap: 1,
  stream: false,
  promptTokens: 5,
  connectMs: 0,
  answer: 'none',
  headMs: 1,
  chunks: [],
  gapMs: 0,
  overDelivers: false,
  end: 'done',
  usage: 'omitted',
  leaves: undefined,
};

export function quoteOf({ promptChars, outputCap }: Plan): Quote {
  return quoteFor({
    size: {
      messages: 1,
      stringBytes: promptChars,
      asciiChars: promptChars,
      nonAsciiChars: 0,
      images: 0,
      audioBytes: 0,
      files: 0,
      fileBytes: 0,
      linkedFiles: 0,
      toolLists: 0,
    },
    budgets: MODEL.tokenBudgets,
    bounds: MODEL.mediaBounds,
    contextWindow: MODEL.contextWindow,
    outputCap,
    modelOutputCap: MODEL_OUTPUT_TOKENS,
    n: 1,
    webSearches: MODEL.webSearches,
    webSearchesNeeded: MODEL.webSearchesNeeded,
    prices: MODEL.prices,
  });
}

/** By the documentation, not the code: a quarter of the characters, plus four per message. */
export function promptTokensOf({ promptChars }: Body): number {
  return Math.ceil(promptChars / 4) + 4;
}

/** In nano-dollars, rounded up once. */
export function priceOf(promptTokens: number, outputTokens: number): bigint {
  return (BigInt(promptTokens) * INPUT + BigInt(outputTokens) * OUTPUT + 999n) / 1000n;
}

/** Usage as reported by the provider; undefined if it is absent or not plausible. */
export function toldUsage(
  plan: Plan,
  output: number,
): { readonly prompt: number; readonly output: number } | undefined {
  switch (plan.usage) {
    case 'true':
      return { prompt: plan.promptTokens, output };
    case 'zero':
      return { prompt: 0, output: 0 };
    case 'more':
      return { prompt: plan.promptTokens, output: TOLD_MORE * output };
    default:
      return undefined;
  }
}

const chunkBytes = new Map<number, Buffer>();
const JSON_BEGIN = Buffer.from('{"choices":[{"index":0,"message":{"role":"assistant","content":"');

/** The beginning of an answer; empty of content for a stream. */
export function headOf({ stream }: Plan): Buffer {
  return stream ? Buffer.alloc(0) : JSON_BEGIN;
}

export function chunkOf({ stream }: Plan, tokens: number): Buffer {
  let bytes = chunkBytes.get(stream ? tokens : -tokens);
  if (!bytes) {
    const content = 'abcd'.repeat(tokens);
    bytes = stream
      ? eventOf({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })
      : Buffer.from(content);
    chunkBytes.set(stream ? tokens : -tokens, bytes);
  }
  return bytes;
}

/** The end of an answer: finish reason, usage, and `[DONE]` for a stream. */
export function lastChunkOf(plan: Plan, output: number): Buffer {
  const told = plan.usage === 'absurd' ? { prompt: 10, output: 1e300 } : toldUsage(plan, output);
  const usage = told && { prompt_tokens: told.prompt, completion_tokens: told.output };
  if (!plan.stream) {
    return Buffer.from(`"},"finish_reason":"stop"}]${usage ? `,"usage":${JSON.stringify(usage)}` : ''}}`);
  }
  return Buffer.concat([
    eventOf({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
    ...(usage ? [eventOf({ choices: [], usage })] : []),
    Buffer.from('data: [DONE]\n\n'),
  ]);
}

function eventOf(chunk: object): Buffer {
  return Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`);
}
