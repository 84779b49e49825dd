/** What the soak's model costs, reckoned apart from the router: amounts are nano-dollars. */

/** As the gateways are told, in USD a million tokens: odd, so that charges have to be rounded. */
export const PRICING = { input: '0.936871', output: '3.011273', cachedInput: '0.100003' };
const PICO = { input: 936_871n, output: 3_011_273n, cached: 100_003n };

/** How far a gateway's estimates may be off: what it learns of its provider's counts changes them by up to two. */
const MIN_FACTOR = 0.45;
const MAX_FACTOR = 2.2;
const TEMPLATE_TOKENS = 8;
const CHARACTERS_A_TOKEN = 4;

/** What a provider said was used. */
export interface ReportedUsage {
  readonly prompt: number;
  readonly cached: number;
  readonly completion: number;
}

/** An amount that is charged rightly if it is between the two. */
export interface Range {
  readonly least: bigint;
  readonly most: bigint;
}

export function exactPrice({ prompt, cached, completion }: ReportedUsage): bigint {
  const pico = BigInt(prompt - cached) * PICO.input + BigInt(cached) * PICO.cached;
  return (pico + BigInt(completion) * PICO.output + 999n) / 1000n;
}

/** What may be charged by estimate for a prompt and an answer of so many characters. */
export function estimatedPrice(
  promptCharacters: number,
  leastDelivered: number,
  mostDelivered: number,
): Range {
  return {
    least: estimate(promptCharacters, leastDelivered, 0, MIN_FACTOR),
    most: estimate(promptCharacters, mostDelivered, TEMPLATE_TOKENS, MAX_FACTOR),
  };
}

function estimate(prompt: number, delivered: number, more: number, factor: number): bigint {
  const tokens = (characters: number): bigint =>
    BigInt(Math.ceil(factor * (Math.ceil(characters / CHARACTERS_A_TOKEN) + more)));
  const output = delivered === 0 ? 0n : tokens(delivered);
  return (tokens(prompt) * PICO.input + output * PICO.output + 999n) / 1000n;
}
