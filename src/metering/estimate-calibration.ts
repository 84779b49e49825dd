import { Evidence, Tally } from './evidence.ts';
import { type DeliveredText, outputTokensEstimate, type Quote } from './estimate.ts';
import type { Usage } from './usage-dialects.ts';

/** Tokens of this many estimated ones count fully; older ones count half, a quarter, and so on. */
const REMEMBERED_TOKENS = 65_536;
/** What the rules of thumb weigh before anything is learned: so many tokens, estimated rightly. */
const PRIOR_TOKENS = 2000;
/** As for tokens, of answers. */
const REMEMBERED_ANSWERS = 64;
/** Of so many accounts it is known how their estimates turned out: of those that asked last. */
const MAX_ACCOUNTS = 64;
/** So many of them say together what holds for all. */
const MIN_ACCOUNTS = 3;
/** Short texts are estimated badly, and tool calls have tokens around their text: only beyond this something is hidden. */
const ESTIMATE_SLACK = 50;
/** After so many answers that hid nothing it is believed that others don't either. */
const MIN_SHOWN_ANSWERS = 8;
/** Then one of so many that clients leave is read on all the same, at random: a client that knew which would have only that one hide nothing. */
const SAMPLE_OF = 16;

/** How estimates turned out, as a moving ratio from a half to two. */
class Ratio {
  #estimated = PRIOR_TOKENS;
  #counted = PRIOR_TOKENS;

  get value(): number {
    return this.#counted / this.#estimated;
  }

  learn(estimated: number, counted: number): void {
    this.#estimated += estimated;
    // One answer can say only so much.
    this.#counted += Math.min(Math.max(counted, estimated / 2), 2 * estimated);
    if (this.#estimated < REMEMBERED_TOKENS) return;
    this.#estimated /= 2;
    this.#counted /= 2;
  }
}

/** How many tokens an answer has on average that its text doesn't show: of several to one request, each. */
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

/** How one account's answers compared with their estimates. */
class AccountAnswers {
  readonly prompt = new Ratio();
  readonly output = new Ratio();
  readonly hidden = new HiddenTokens();
  /** It has learned something. */
  isKnown = false;
}

/**
 * What was learned of one target's tokens, from answers that told their usage: estimates that are charged are corrected
 * by it. Holds are not.
 *
 * Every account has one voice: what holds for all is the median of what each has met with, once there are three, and the
 * rules of thumb before. What an account has met with itself counts for it where that is more, never where it is less.
 */
export class EstimateCalibration {
  readonly #byAccount = new Map<string, AccountAnswers>();
  /** Accounts whose answers counted more than they showed. */
  readonly #hides = new Evidence();
  #surelyHides = false;
  /** Answers that hid nothing, or did not tell. */
  readonly #shown = new Tally(MIN_SHOWN_ANSWERS);
  readonly #random: () => number;

  /** @param random - from 0 to below 1 */
  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** An answer ended with usage. */
  learn(account: string, quote: Quote, delivered: DeliveredText, usage: Usage): void {
    // What a client predicted wrongly is output that no text shows, and says nothing of other requests.
    if (quote.predictedTokens !== undefined) return;
    const answers = this.#of(account);
    answers.isKnown = true;
    const { images, audioBytes, files } = quote.size;
    if (images + audioBytes + files === 0) answers.prompt.learn(quote.promptTokens, usage.promptTokens);

    const { completionTokens, audioCompletionTokens, imageCompletionTokens, reasoningTokens } = usage;
    const shownTokens = outputTokensEstimate(delivered);
    const text = Math.max(0, completionTokens - audioCompletionTokens - imageCompletionTokens);
    const isHidden = text > 2 * shownTokens + ESTIMATE_SLACK;
    answers.hidden.learn(isHidden ? text - shownTokens : 0, quote.n);
    if (isHidden) {
      this.#hides.add(account);
      this.#shown.clear();
    } else if (shownTokens > 0) {
      answers.output.learn(shownTokens, text);
    }
    // One without a word may have been cut off in its reasoning.
    if (!isHidden && (shownTokens > 0 || text === 0)) this.#shown.add(account);
    // No text has more tokens than bytes: that much reasoning can't have been in it, whatever a client asked for.
    if (reasoningTokens > delivered.ascii + 4 * delivered.nonAscii) this.#surelyHides = true;
  }

  prompt(account: string, tokens: number): number {
    return corrected(
      tokens,
      this.#valueFor(account, ({ prompt }) => prompt.value, 1),
    );
  }

  /** What so many tokens of text are likely to be. */
  shown(account: string, tokens: number): number {
    return corrected(
      tokens,
      this.#valueFor(account, ({ output }) => output.value, 1),
    );
  }

  /** The same, and what `n` answers hide: it comes before the first word, so it is owed however soon a client leaves. */
  output(account: string, tokens: number, n = 1): number {
    const hidden = this.#valueFor(account, (answers) => answers.hidden.mean, 0);
    return this.shown(account, tokens) + Math.ceil(n * hidden);
  }

  /** An answer ended without usage: by reading others on nothing would be learned either. */
  learnWithoutUsage(account: string): void {
    this.#shown.add(account);
  }

  /**
   * Whether an answer that this account leaves is to be read on: it may well have tokens that no text shows, or nothing is known yet, or it
   * is a sample. What others pay by estimate is not changed by it.
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

  /** The account's own, which is now the last that is forgotten. */
  #of(account: string): AccountAnswers {
    const answers = this.#byAccount.get(account) ?? new AccountAnswers();
    this.#byAccount.delete(account);
    this.#byAccount.set(account, answers);
    const [oldest] = this.#byAccount.keys();
    if (this.#byAccount.size > MAX_ACCOUNTS && oldest !== undefined) this.#byAccount.delete(oldest);
    return answers;
  }
}

function corrected(tokens: number, ratio: number): number {
  // Not up because of the last binary digit of the ratio.
  return Math.ceil(tokens * ratio - 1e-6);
}
