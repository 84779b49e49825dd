import { MIN_ACCOUNTS, Evidence, Tally } from './evidence.ts';
import { type DeliveredText, outputTokensEstimate, type Quote } from './estimate.ts';
import type { Usage } from './usage-dialects.ts';

/** The most recent estimated tokens, up to this many, count fully; older ones count half, a quarter, and so on. */
const REMEMBERED_TOKENS = 65_536;
/** Weight of the uncalibrated estimate: as of this many tokens that were estimated correctly. */
const PRIOR_TOKENS = 2000;
/** The same for answers. */
const REMEMBERED_ANSWERS = 64;
/** Most accounts whose estimates are remembered: those with the most recent requests. */
const MAX_ACCOUNTS = 64;
/** Short texts are estimated badly, and tool calls have tokens around their text: only more tokens than this count as hidden. */
const ESTIMATE_SLACK = 50;
/** After this many answers without hidden tokens, further ones are assumed to have none. */
const MIN_SHOWN_ANSWERS = 8;
/** Then one in this many abandoned answers is still read to its end, chosen at random, so that no client can predict which. */
const SAMPLE_OF = 16;

/** Counted tokens over estimated ones, as a moving ratio from a half to two. */
class Ratio {
  #estimated = PRIOR_TOKENS;
  #counted = PRIOR_TOKENS;

  get value(): number {
    return this.#counted / this.#estimated;
  }

  learn(estimated: number, counted: number): void {
    this.#estimated += estimated;
    // Bounds the influence of one answer.
    this.#counted += Math.min(Math.max(counted, estimated / 2), 2 * estimated);
    if (this.#estimated < REMEMBERED_TOKENS) return;
    this.#estimated /= 2;
    this.#counted /= 2;
  }
}

/** Average number of tokens of an answer (of each choice) that its text doesn't show: of reasoning, sound and images. */
class HiddenTokens {
  #answers = 0;
  #tokens = 0;

  get mean(): number {
    return this.#answers === 0 ? 0 : this.#tokens / this.#answers;
  }

  learn(tokens: number, answers: number): void {
    this.#answers += 1;
    this.#tokens += tokens / answers;
    if (this.#answers < REMEMBERED_ANSWERS) return;
    this.#answers /= 2;
    this.#tokens /= 2;
  }
}

/** How the answers of one account compared with their estimates. */
class AccountAnswers {
  readonly prompt = new Ratio();
  readonly output = new Ratio();
  readonly hidden = new HiddenTokens();
  /** Whether it has learned from an answer. */
  isKnown = false;
}

/**
 * Calibrates the token estimates of one target by answers with reported usage. Corrects estimates that are charged, not
 * holds.
 *
 * Every account has one vote: the correction for all is the median over the accounts once there are three, and none
 * before. An account's own ratio applies to it if it is higher than that, never if it is lower.
 */
export class EstimateCalibration {
  readonly #byAccount = new Map<string, AccountAnswers>();
  /** The account that was used last. */
  #newest: string | undefined;
  /** Accounts whose answers had hidden tokens. */
  readonly #hides = new Evidence();
  #surelyHides = false;
  /** Answers without hidden tokens, or without usage. */
  readonly #shown = new Tally(MIN_SHOWN_ANSWERS);
  readonly #random: () => number;

  /** @param random - returns from 0 to below 1 */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** An answer ended with usage. */
  learn(account: string, quote: Quote, delivered: DeliveredText, usage: Usage): void {
    // Rejected prediction tokens are output that no text shows, and say nothing about other requests.
    if (quote.predictedTokens !== undefined) return;
    const answers = this.#of(account);
    answers.isKnown = true;
    const { images, audioBytes, files } = quote.size;
    if (images + audioBytes + files === 0) answers.prompt.learn(quote.promptTokens, usage.promptTokens);

    const { completionTokens, audioCompletionTokens, imageCompletionTokens, reasoningTokens } = usage;
    const shownTokens = outputTokensEstimate(delivered);
    const isHidden = completionTokens > 2 * shownTokens + ESTIMATE_SLACK;
    answers.hidden.learn(isHidden ? completionTokens - shownTokens : 0, quote.n);
    if (isHidden) {
      this.#hides.add(account);
      this.#shown.clear();
    } else if (shownTokens > 0) {
      const text = completionTokens - audioCompletionTokens - imageCompletionTokens;
      answers.output.learn(shownTokens, Math.max(0, text));
    }
    // An answer without text may have been cut off in its reasoning.
    if (!isHidden && (shownTokens > 0 || completionTokens === 0)) this.#shown.add(account);
    // No text has more tokens than bytes: this much reasoning can't have been in the text, whatever the client requested.
    if (reasoningTokens > delivered.ascii + 4 * delivered.nonAscii) this.#surelyHides = true;
  }

  prompt(account: string, tokens: number): number {
    return corrected(
      tokens,
      this.#valueFor(account, ({ prompt }) => prompt.value, 1),
    );
  }

  /** The calibrated estimate for a text. */
  shown(account: string, tokens: number): number {
    return corrected(
      tokens,
      this.#valueFor(account, ({ output }) => output.value, 1),
    );
  }

  /** The same, plus the average hidden tokens of `n` choices: they precede the text, so an early disconnect doesn't avoid them. */
  output(account: string, tokens: number, n = 1): number {
    const hidden = this.#valueFor(account, (answers) => answers.hidden.mean, 0);
    return this.shown(account, tokens) + Math.ceil(n * hidden);
  }

  /** An answer ended without usage: reading others to their end would teach nothing either. */
  learnWithoutUsage(account: string): void {
    this.#shown.add(account);
  }

  /**
   * Whether to read an answer to its end after this account's client disconnected: it probably has hidden tokens, too little
   * is known yet, or it is a random sample. Doesn't affect what other accounts are charged by estimate.
   */
  mayHide(account: string): boolean {
    if (this.#surelyHides || this.#hides.countsFor(account) || !this.#shown.countsFor(account)) return true;
    return this.#random() * SAMPLE_OF < 1;
  }

  #valueFor(account: string, valueOf: (answers: AccountAnswers) => number, unknown: number): number {
    const known = [...this.#byAccount.values()].filter(({ isKnown }) => isKnown).map(valueOf);
    known.sort((one, other) => one - other);
    const ofAll = known.length < MIN_ACCOUNTS ? unknown : (known[known.length >> 1] ?? unknown);
    const own = this.#byAccount.get(account);
    return own?.isKnown ? Math.max(ofAll, valueOf(own)) : ofAll;
  }

  /** The account's own answers; marks them as the most recently used. */
  #of(account: string): AccountAnswers {
    const answers = this.#byAccount.get(account) ?? new AccountAnswers();
    if (account === this.#newest) return answers;
    this.#newest = account;
    this.#byAccount.delete(account);
    this.#byAccount.set(account, answers);
    const [oldest] = this.#byAccount.keys();
    if (this.#byAccount.size > MAX_ACCOUNTS && oldest !== undefined) this.#byAccount.delete(oldest);
    return answers;
  }
}

function corrected(tokens: number, ratio: number): number {
  // Don't round up because of a floating-point error.
  return Math.ceil(tokens * ratio - 1e-6);
}
