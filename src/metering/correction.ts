import type { Quote } from './estimate.ts';
import type { Usage } from './usage-dialects.ts';

/** Tokens of this many estimated ones count fully; older ones count half, a quarter, and so on. */
const REMEMBERED_TOKENS = 65_536;
/** What the rules of thumb weigh before anything is learned: so many tokens, estimated rightly. */
const PRIOR_TOKENS = 2000;

/** How estimates turned out, as a moving ratio from a half to two. */
class Ratio {
  #estimated = PRIOR_TOKENS;
  #counted = PRIOR_TOKENS;

  learn(estimated: number, counted: number): void {
    this.#estimated += estimated;
    // One answer can say only so much: a model that thinks silently counts ten times what it writes.
    this.#counted += Math.min(Math.max(counted, estimated / 2), 2 * estimated);
    if (this.#estimated < REMEMBERED_TOKENS) return;
    this.#estimated /= 2;
    this.#counted /= 2;
  }

  correct(tokens: number): number {
    return Math.ceil((tokens * this.#counted) / this.#estimated);
  }
}

/**
 * What was learned of one model's tokens, from answers that told their usage: estimates that are
 * charged are corrected by it. Holds are not.
 */
export class Correction {
  readonly #prompt = new Ratio();
  readonly #output = new Ratio();

  /** An answer ended with usage, whose output was estimated as `outputTokens`. */
  learn(quote: Quote, outputTokens: number, usage: Usage): void {
    const { images, audioBytes, files } = quote.size;
    if (images + audioBytes + files === 0) this.#prompt.learn(quote.promptTokens, usage.promptTokens);
    if (outputTokens > 0) this.#output.learn(outputTokens, usage.completionTokens);
  }

  prompt(tokens: number): number {
    return this.#prompt.correct(tokens);
  }

  output(tokens: number): number {
    return this.#output.correct(tokens);
  }
}
