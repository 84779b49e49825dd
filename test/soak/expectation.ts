import type { Try } from './client.ts';
import type { RequestEvidence } from './evidence.ts';
import { estimatedPrice, exactPrice, type Range } from './prices.ts';
import type { Attempt } from './provider.ts';

/** What may be charged for a request, and why. */
export interface Expectation extends Range {
  readonly why: string;
}

/** A client has its answer this long before its charge is in the outbox, at most. */
const POSTING_MS = 500;
/** The same, where the gateway has to notice first that its client left. */
const NOTICING_MS = 3000;
/** As long as a gateway takes to close, at most. */
const CLOSING_MS = 20_000;

/** By what the provider told, and what the client got: the README's table of who pays what. */
export function expectationOf(request: RequestEvidence, hasOutbox: boolean): Expectation {
  const { tried, attempts } = request;
  const last = attempts.at(-1);
  if (!last) return { least: 0n, most: 0n, why: 'never reached the provider' };
  const promptLength = tried?.plan.prompt.length ?? 0;
  if (tried && tried.status >= 400) return { least: 0n, most: 0n, why: 'its client was refused' };
  const expected = byOutcome(last, promptLength, tried);
  if (!tried || mayHaveDiedBefore(tried, hasOutbox)) {
    return { ...expected, least: 0n, why: `${expected.why}; its gateway may have ended before` };
  }
  return expected;
}

function byOutcome(last: Attempt, promptLength: number, tried: Try | undefined): Expectation {
  const hasLeft = tried?.hasLeft !== false;
  const estimate = estimatedPrice(promptLength, 0, last.written);
  switch (last.outcome) {
    case 'refused':
      return { least: 0n, most: hasLeft ? estimate.most : 0n, why: 'refused by the provider' };
    case 'whole': {
      const price = exactPrice(last.usage!);
      if (tried?.isWhole && tried.status === 200) return { least: price, most: price, why: 'a whole answer' };
      const most = price > estimate.most ? price : estimate.most;
      const least = price < estimate.least ? price : estimate.least;
      return { least, most, why: 'a whole answer that its client did not get' };
    }
    case 'cut':
      if (last.written === 0) {
        return { least: 0n, most: hasLeft ? estimate.most : 0n, why: 'cut before any output' };
      }
      return { ...estimate, why: 'cut in mid-answer' };
    case 'reset':
      return { least: 0n, most: estimate.most, why: 'reset in mid-answer' };
    case 'aborted':
      return {
        least: hasLeft || last.written > 0 ? estimate.least : 0n,
        most: estimate.most,
        why: hasLeft ? 'its client left' : 'ended by its gateway',
      };
    default:
      return { least: 0n, most: estimate.most, why: 'never answered' };
  }
}

/** Whether its gateway was gone before the charge was sure to be kept. */
function mayHaveDiedBefore({ run, sentAt, endedAt = sentAt, hasLeft }: Try, hasOutbox: boolean): boolean {
  if (!run) return true;
  const safeAt = endedAt + (hasLeft ? NOTICING_MS : POSTING_MS);
  if (run.killedAt !== undefined && run.killedAt < safeAt) return true;
  return !hasOutbox && (run.killedAt ?? run.endedAt ?? Infinity) < safeAt + CLOSING_MS;
}
