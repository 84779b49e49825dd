import { hash } from 'node:crypto';

import { formatUsd, type NanoDollars, parseUsd } from '../ledger/money.ts';
import type { Usage } from './usage-dialects.ts';

/** What tokens cost, in USD per million as decimal strings, e.g. `'0.15'`. */
export interface Pricing {
  readonly input: string;
  readonly output: string;
  /** Of the prompt, what came from a cache. Default: as `input`. */
  readonly cachedInput?: string;
  /** Of the prompt, what was written to a cache. Default: as `input`. */
  readonly cacheWriteInput?: string;
  /** Of the prompt, what was audio. Default: as `input`. */
  readonly audioInput?: string;
  /** Of the output, what was audio. Default: as `output`. */
  readonly audioOutput?: string;
  /** A fee for each request that is charged, in USD. Default: none. */
  readonly request?: string;
}

/** A Pricing in integers: pico-dollars (1e-12 USD) per token, which is micro-dollars per million. */
export interface Price {
  readonly input: bigint;
  readonly output: bigint;
  readonly cachedInput: bigint;
  readonly cacheWriteInput: bigint;
  readonly audioInput: bigint;
  readonly audioOutput: bigint;
  readonly request: NanoDollars;
  /** The dearest that a token of a prompt, and of an output, can be: what holds are made of. */
  readonly inputAtMost: bigint;
  readonly outputAtMost: bigint;
  /** Names this price in the journal: the same prices have the same name. */
  readonly version: string;
}

const PRICING_KEYS: Record<keyof Pricing, true> = {
  input: true,
  output: true,
  cachedInput: true,
  cacheWriteInput: true,
  audioInput: true,
  audioOutput: true,
  request: true,
};

/** Dearer than any model by far: a price per token where one per million is wanted, or the other way round. */
const ABSURD_USD_PER_MILLION = 100_000n;

/**
 * @param option - where the pricing stands, for the message: `models["x"].pricing`
 * @throws {TypeError} naming the price that can't be right
 */
export function parsePricing(pricing: Pricing | 'free', option: string): Price {
  if (pricing === 'free') return FREE;
  if (typeof pricing !== 'object' || pricing === null) {
    throw new TypeError(`${option} must be { input, output, … } or 'free', got ${show(pricing)}`);
  }
  for (const key of Object.keys(pricing)) {
    if (!Object.hasOwn(PRICING_KEYS, key)) {
      throw new TypeError(
        `${option} has an unknown key "${key}"; it takes ${Object.keys(PRICING_KEYS).join(', ')}`,
      );
    }
  }
  const perToken = (name: keyof Pricing, fallback?: bigint): bigint => {
    const given = pricing[name];
    return given === undefined && fallback !== undefined
      ? fallback
      : parsePerMillion(given, `${option}.${name}`);
  };
  const input = perToken('input');
  const output = perToken('output');
  const prices = {
    input,
    output,
    cachedInput: perToken('cachedInput', input),
    cacheWriteInput: perToken('cacheWriteInput', input),
    audioInput: perToken('audioInput', input),
    audioOutput: perToken('audioOutput', output),
    request: pricing.request === undefined ? 0n : parseFee(pricing.request, `${option}.request`),
  };
  const { cachedInput, cacheWriteInput, audioInput, audioOutput } = prices;
  return {
    ...prices,
    inputAtMost: largest(input, cachedInput, cacheWriteInput, audioInput),
    outputAtMost: largest(output, audioOutput),
    version: hash('sha256', Object.values(prices).join(' '), 'hex').slice(0, 12),
  };
}

/** What costs nothing. */
export const FREE: Price = {
  input: 0n,
  output: 0n,
  cachedInput: 0n,
  cacheWriteInput: 0n,
  audioInput: 0n,
  audioOutput: 0n,
  request: 0n,
  inputAtMost: 0n,
  outputAtMost: 0n,
  version: 'free',
};

/** What a usage costs: every token in one bucket at that bucket's price, rounded up once. */
export function charge(usage: Usage, price: Price): NanoDollars {
  const { promptTokens, cachedTokens, cacheWriteTokens, audioPromptTokens } = usage;
  const { completionTokens, audioCompletionTokens } = usage;
  const pico =
    BigInt(promptTokens - cachedTokens - cacheWriteTokens - audioPromptTokens) * price.input +
    BigInt(cachedTokens) * price.cachedInput +
    BigInt(cacheWriteTokens) * price.cacheWriteInput +
    BigInt(audioPromptTokens) * price.audioInput +
    BigInt(completionTokens - audioCompletionTokens) * price.output +
    BigInt(audioCompletionTokens) * price.audioOutput;
  return toNano(pico) + price.request;
}

/** Pico-dollars as nano-dollars, rounded up. */
export function toNano(pico: bigint): NanoDollars {
  return (pico + 999n) / 1000n;
}

/** A price per token as model lists show it, in USD: `0.00000015`. */
export function usdPerToken(pico: bigint): string {
  const digits = pico.toString().padStart(13, '0');
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`.replace(/\.?0+$/, '');
}

function largest(...amounts: readonly bigint[]): bigint {
  return amounts.reduce((most, amount) => (amount > most ? amount : most));
}

function parsePerMillion(given: unknown, option: string): bigint {
  const parts = typeof given === 'string' ? /^(\d{1,6})(?:\.(\d{1,6}))?$/.exec(given) : null;
  if (!parts) {
    throw new TypeError(
      `${option} must be a decimal string of USD per million tokens with at most 6 decimals, as "0.15", got ${show(given)}`,
    );
  }
  const [, whole = '0', decimals = ''] = parts;
  const micro = BigInt(whole) * 1_000_000n + BigInt(decimals.padEnd(6, '0'));
  if (micro > ABSURD_USD_PER_MILLION * 1_000_000n) {
    throw new TypeError(
      `${option} must be at most ${ABSURD_USD_PER_MILLION} USD per million tokens, got ${parts[0]}`,
    );
  }
  return micro;
}

/** A BigInt has no JSON. */
function show(value: unknown): string {
  return typeof value === 'bigint' ? `${value}n` : (JSON.stringify(value) ?? String(value));
}

function parseFee(given: string, option: string): NanoDollars {
  const fee = parseUsd(given, option);
  if (fee < 0n || fee > 1_000_000_000_000n) {
    throw new TypeError(`${option} must be from 0 to 1000 USD, got ${formatUsd(fee)}`);
  }
  return fee;
}
