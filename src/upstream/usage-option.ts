import { Evidence } from '../evidence.ts';
import type { Target } from '../models/catalog.ts';
import { isRecord, type Json, parseJson } from '../models/json-value.ts';
import { PerTarget } from '../models/per-target.ts';

/** A field of the request, as errors name one. */
const IS_FIELD = /^(?:body\.)?stream_options(?:\.include_usage)?$/;
/** Whole messages that name the field, where no member does: OpenAI's, Go's, Gemini's, Anthropic's. */
const IS_MESSAGE = [
  /^(?:json: )?(?:unknown|unrecognized|unsupported|unexpected)(?: request)? (?:argument|parameter|field)(?: supplied)?:? ["'`]?stream_options(?:\.include_usage)?["'`]?\.?$/i,
  /^Invalid JSON payload received\. Unknown name "stream_options(?:\.include_usage)?"(?:: Cannot find field\.)?$/,
  /^stream_options(?:\.include_usage)?: Extra inputs are not permitted$/,
];
/** No message of those kinds is longer. */
const LONGEST_MESSAGE = 200;

/**
 * Whether an error says that the provider doesn't know `stream_options`.
 *
 * It has to name the field where errors name fields, or in a message that says nothing else: a client can put the word into an
 * error that quotes what it sent, but not there.
 */
export function refusesUsageOption(body: string): boolean {
  const answer = parseJson(body);
  // Gemini's errors are a list.
  const document = Array.isArray(answer) ? answer[0] : answer;
  if (!isRecord(document)) return false;
  const places = [document, document['error'], document['message'], document['detail']];
  return places.some((place) => {
    const faults = isRecord(place) ? [place['detail'], place['errors']].flat() : [place].flat();
    return namesOption(place) || faults.some(namesOption);
  });
}

function namesOption(fault: Json): boolean {
  if (typeof fault === 'string') return isMessage(fault);
  if (!isRecord(fault)) return false;
  const { param, field, loc, message } = fault;
  if (Array.isArray(loc)) return IS_FIELD.test(loc.join('.'));
  return [param, field].some((name) => typeof name === 'string' && IS_FIELD.test(name)) || isMessage(message);
}

function isMessage(text: Json): boolean {
  return (
    typeof text === 'string' &&
    text.length <= LONGEST_MESSAGE &&
    IS_MESSAGE.some((pattern) => pattern.test(text))
  );
}

/** A target that refused is asked again after so long. */
const PROBE_MS = 60_000;

/** What is known of one target. */
class Refusals {
  readonly accounts = new Evidence();
  lastAt = 0;
  isTold = false;
}

/**
 * Which targets take `stream_options.include_usage`: those whose provider is said to, but for those that refuse it.
 *
 * A refusal counts for the account that met with it, and for all once several did. Every minute a request asks again; the
 * first one whose field is taken ends the matter.
 */
export class UsageOption {
  readonly #refusals = new PerTarget(() => new Refusals());
  readonly #now: () => number;

  /** @param now - a clock that nobody sets, in ms */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Whether a request of this account is to ask for usage. */
  isTakenBy(target: Target, account: string): boolean {
    if (target.provider.streamUsage !== 'option') return false;
    const refusals = this.#refusals.of(target);
    if (!refusals.accounts.countsFor(account)) return true;
    const now = this.#now();
    if (now - refusals.lastAt < PROBE_MS) return false;
    // This one tries it, the others go on without until it is answered.
    refusals.lastAt = now;
    return true;
  }

  /** It answered a request with the field. */
  wasTakenBy(target: Target): void {
    this.#refusals.of(target).accounts.clear();
  }

  /** It refused a request with the field, and took the same one without it. Returns what the operator should know of it. */
  wasRefusedBy(target: Target, account: string): Error | undefined {
    const refusals = this.#refusals.of(target);
    refusals.lastAt = this.#now();
    const countsForAllNow = refusals.accounts.add(account);
    if (refusals.isTold && !countsForAllNow) return undefined;
    refusals.isTold = true;
    const { provider, model } = target;
    return new Error(
      `The provider ${JSON.stringify(provider.name)} refused stream_options for ${JSON.stringify(model)}: ` +
        `${countsForAllNow ? 'all streams there' : 'streams of one account'} go without, and are charged by estimate ` +
        "unless usage comes unasked. It is tried again every minute; if it stays so, set streamUsage: 'rejected'",
    );
  }
}
