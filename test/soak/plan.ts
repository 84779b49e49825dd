import type { Random } from '../simulation/random.ts';
import type { ReportedUsage } from './prices.ts';

/** A key whose requests are part of the load. */
export interface Payer {
  readonly account: string;
  readonly keyId: string;
  readonly secret: string;
  /** How much of the load it has, beside the others. */
  readonly share: number;
  /** The only gateway that it asks, by its place; any if undefined. */
  readonly place?: number;
  /** Whether its requests are admitted wherever the store is well: neither money nor a limit refuses them. */
  readonly isUnlimited: boolean;
  /** What its key may spend in its lifetime, in nano-dollars. */
  readonly budget?: bigint;
  readonly requestsPerMinute?: number;
  readonly concurrentRequests?: number;
}

/** How the provider answers. */
export interface AnswerPlan {
  /**
   * `whole`: to its end, with usage; `cut`: closed in mid-answer; `reset`: the same by RST; `refused`: an error
   * status, `refusals` times; `silent`: nothing at all.
   */
  readonly kind: 'whole' | 'cut' | 'reset' | 'refused' | 'silent';
  readonly refusals: number;
  readonly headMs: number;
  readonly gapMs: number;
  readonly pieces: readonly string[];
  /** Of `cut` and `reset`: so many pieces are sent. */
  readonly sentPieces: number;
  readonly usage: ReportedUsage;
}

/** When the client leaves; `stay`: not before its patience ends. */
export type Departure =
  | { readonly kind: 'stay' }
  /** Having sent half of its body. */
  | { readonly kind: 'before the body'; readonly afterMs: number }
  | { readonly kind: 'early'; readonly afterMs: number }
  | { readonly kind: 'mid-answer'; readonly afterReads: number };

/** One request as its client means it, however often it is sent. */
export interface Plan {
  readonly n: number;
  readonly payer: Payer;
  readonly stream: boolean;
  readonly prompt: string;
  readonly body: string;
  readonly answer: AnswerPlan;
  readonly departure: Departure;
  /** With one, it is sent again. */
  readonly idempotencyKey?: string;
}

export const MODEL = 'soak/model';
const MAX_TOKENS = 400;
const PIECE = 'a few words of an answer, as they are sent '.slice(0, 40);
export const TOKENS_A_PIECE = 10;

export function drawPlan(n: number, payer: Payer, random: Random): Plan {
  const stream = random.chance(0.6);
  const prompt = `soak-${n}. ${'some words of a prompt '.repeat(random.between(2, 20))}`;
  const idempotent = random.chance(0.3);
  const answer = drawAnswer(prompt, random);
  const fields = {
    model: MODEL,
    messages: [{ role: 'user', content: prompt }],
    max_tokens: MAX_TOKENS,
    ...(stream && { stream: true }),
  };
  return {
    n,
    payer,
    stream,
    prompt,
    body: JSON.stringify(fields),
    answer,
    departure: drawDeparture(random),
    ...(idempotent && { idempotencyKey: `soak-key-${n}` }),
  };
}

function drawAnswer(prompt: string, random: Random): AnswerPlan {
  const isLong = random.chance(0.06);
  const pieces = Array.from({ length: isLong ? 40 : random.between(1, 16) }, () => PIECE);
  const completion = Math.min(
    MAX_TOKENS,
    Math.max(1, pieces.length * TOKENS_A_PIECE + random.between(-4, 4)),
  );
  const isDense = random.chance(0.1);
  const counted = isDense ? prompt.length * 0.8 : (prompt.length / 4) * (0.8 + 0.4 * random.next());
  const kinds = { cut: 0.04, reset: 0.04, refused: 0.03, silent: 0.01 } as const;
  let kind: AnswerPlan['kind'] = 'whole';
  let drawn = random.next();
  for (const [name, share] of Object.entries(kinds) as [keyof typeof kinds, number][]) {
    if (drawn >= 0 && drawn < share) kind = name;
    drawn -= share;
  }
  const promptTokens = Math.ceil(counted);
  return {
    kind,
    refusals: random.between(1, 3),
    headMs: Math.round(random.skewed(2, 600)),
    gapMs: isLong ? random.between(100, 400) : Math.round(random.skewed(1, 120)),
    pieces,
    sentPieces: random.below(pieces.length),
    usage: { prompt: promptTokens, cached: random.chance(0.2) ? random.below(promptTokens) : 0, completion },
  };
}

function drawDeparture(random: Random): Departure {
  const drawn = random.next();
  if (drawn < 0.03) return { kind: 'before the body', afterMs: random.between(0, 30) };
  if (drawn < 0.08) return { kind: 'early', afterMs: random.between(1, 250) };
  if (drawn < 0.16) return { kind: 'mid-answer', afterReads: random.between(1, 10) };
  return { kind: 'stay' };
}
