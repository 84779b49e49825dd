import OpenAI from 'openai';

import type { ChatCompletionsRouterOptions, HealthChange, Settled } from '../../../src/index.ts';
import { completion, type FakeProvider, type Script, startFakeProvider } from '../../../src/testing.ts';
import { type Gateway, PRICING, PROVIDER_KEY, QUESTION, startGateway } from '../../helpers/gateway.ts';

/** Sixty tokens of four characters, by count and by estimate. */
export const WORDS: readonly string[] = Array.from(
  { length: 60 },
  (_, n) => ` w${String(n).padStart(2, '0')}`,
);
export const ANSWER: string = WORDS.join('');

/** What a provider answers that is well: sixty tokens for a prompt of nine. */
export const WELL: Script = completion({ content: WORDS, tokens: { prompt: 9, completion: 60 } });
/** 9 × 1,000 + 60 × 3,000 nano-dollars, and twice as much. */
export const PRIMARY_CHARGE = '0.000189';
export const FALLBACK_CHARGE = '0.000378';

/** What the official client made of an answer. */
export interface Heard {
  readonly text: string;
  /** Of the last chunk that named one. */
  readonly model: string | undefined;
  readonly finishReason: string | undefined;
  readonly usage: OpenAI.CompletionUsage | undefined;
  /** What it threw; undefined where the answer looked finished. */
  readonly error: (Error & { readonly status?: number; readonly code?: string }) | undefined;
  readonly ms: number;
  /** What became of the money. */
  readonly settled: Settled;
}

/** A model at two providers, the second of which costs twice as much, behind a whole gateway. */
export interface TwoTargets {
  readonly primary: FakeProvider;
  readonly fallback: FakeProvider;
  readonly gateway: Gateway;
  readonly changes: HealthChange[];
  /** Streams a completion to the official client, which tries once. */
  hear(fields?: Partial<OpenAI.ChatCompletionCreateParamsStreaming>): Promise<Heard>;
  /** Requests that the primary and the fallback got so far. */
  asked(): readonly [primary: number, fallback: number];
  /** What the account has paid in all, and what is still held. */
  books(): Promise<{ readonly used: string; readonly held: string }>;
  close(): Promise<void>;
}

export interface TwoTargetsOptions extends Partial<ChatCompletionsRouterOptions> {
  /** There is nobody else to ask. */
  readonly primaryAlone?: boolean;
}

export async function startTwoTargets(options: TwoTargetsOptions = {}): Promise<TwoTargets> {
  const { primaryAlone = false, ...routerOptions } = options;
  const primary = await startFakeProvider();
  const fallback = await startFakeProvider();
  primary.answer(WELL);
  fallback.answer(WELL);
  const changes: HealthChange[] = [];
  const gateway = await startGateway({
    providers: {
      primary: { baseURL: primary.baseURL, apiKey: PROVIDER_KEY, onDisconnect: 'abort' },
      fallback: { baseURL: fallback.baseURL, apiKey: 'sk-other-secret', onDisconnect: 'abort' },
    },
    models: {
      'acme/fast': {
        targets: [
          'primary/main-model',
          ...(primaryAlone
            ? []
            : [{ provider: 'fallback', model: 'other-model', pricing: { input: '2', output: '6' } }]),
        ],
        pricing: PRICING,
        contextWindow: 8192,
        maxOutputTokens: 1000,
      },
    },
    hooks: { onHealthChange: (change) => changes.push(change) },
    ...routerOptions,
  });

  const client = new OpenAI({
    baseURL: gateway.baseURL,
    apiKey: gateway.key,
    maxRetries: 0,
    logLevel: 'off',
  });
  return {
    primary,
    fallback,
    gateway,
    changes,
    hear: async (fields) => {
      const settled = gateway.nextSettled();
      return { ...(await hear(client, fields)), settled: await settled };
    },
    asked: () => [primary.requests.length, fallback.requests.length],
    books: async () => {
      const { totalUsed, held } = await gateway.router.credits.balance('acct');
      return { used: totalUsed, held };
    },
    close: async () => {
      await gateway.close();
      await primary.close();
      await fallback.close();
    },
  };
}

async function hear(
  client: OpenAI,
  fields: Partial<OpenAI.ChatCompletionCreateParamsStreaming> = {},
): Promise<Omit<Heard, 'settled'>> {
  const startedAt = performance.now();
  const heard: { -readonly [K in keyof Omit<Heard, 'settled'>]: Heard[K] } = {
    text: '',
    model: undefined,
    finishReason: undefined,
    usage: undefined,
    error: undefined,
    ms: 0,
  };
  try {
    const asked = { ...QUESTION, stream_options: { include_usage: true }, ...fields, stream: true as const };
    for await (const chunk of await client.chat.completions.create(asked)) {
      const [choice] = chunk.choices;
      heard.text += choice?.delta.content ?? '';
      heard.model = chunk.model;
      heard.finishReason = choice?.finish_reason ?? heard.finishReason;
      heard.usage = chunk.usage ?? heard.usage;
    }
  } catch (error) {
    heard.error = error as Heard['error'];
  }
  heard.ms = performance.now() - startedAt;
  return heard;
}
