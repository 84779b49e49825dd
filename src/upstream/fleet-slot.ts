import type {
  NewSlot,
  SlotReport,
  SlotState,
  WordAmounts,
  WordState,
} from '../ledger/contract/fleet-view.ts';
import type { UpstreamLimits } from '../options/upstream-limits.ts';
import type { Countdown } from './countdown.ts';

/** How a slot learns of its fleet, and how often. */
export interface FleetTerms {
  readonly bucketMs: number;
  /** Between two reports. */
  readonly intervalMs: number;
  /** For how long a state holds. */
  readonly freshMs: number;
  readonly leaseMs: number;
  /** The slot is used: it reports from now on. */
  readonly join: (slot: FleetSlot) => void;
}

/** What a provider says is left of its limits, counted down. */
export interface SharedWord extends WordAmounts<Countdown> {
  /** The fleet says what it knows of the word, and this process's part of it. */
  hear(words: WordAmounts<WordState>, now: number): void;
  /** Of what this process reported, the fleet knows nothing. */
  forget(): void;
}

type Amounts = readonly (readonly [bucket: number, amount: number])[];

/** What was used in the last minute, by bucket. */
export interface SlotHistory {
  readonly requests: Amounts;
  readonly tokens: Amounts;
}

interface Use {
  readonly requests: number;
  readonly tokens: number;
}

const NO_HISTORY: SlotHistory = { requests: [], tokens: [] };

/** After this many intervals without use a slot leaves: nothing that it used counts any more. */
const IDLE_INTERVALS = 244;
/** Intervals between two reports of an idle slot. */
const IDLE_REPORTS = 4;
/** Those of a minute; older ones count no more. */
const COUNTED_BUCKETS = 61;
/** While the fleet doesn't answer. */
const MAX_BUCKETS = 2 * COUNTED_BUCKETS;

/** What this process may use of one limit, by the last word of the fleet. */
export class FleetSlot {
  readonly name: string;
  readonly member: string;
  readonly #terms: FleetTerms;
  #limits: UpstreamLimits | undefined;
  #history: ((now: number) => SlotHistory) | undefined;
  #word: SharedWord | undefined;
  #isMember = false;
  /** Reports since it was last used. */
  #idle = 0;
  #state: SlotState | undefined;
  #heardAt = 0;
  #epoch = '';
  #seq = 0;
  /** Not reported yet, by bucket. */
  #used = new Map<number, Use>();
  /** Reported, and not answered: it is reported again under the same number. */
  #reported: ReadonlyMap<number, Use> | undefined;
  /** Left of the last grant. */
  #left = { requests: 0, tokens: 0 };
  #running = 0;
  /** Asked for since the last report, also in vain. */
  #demand = { requests: 0, tokens: 0, least: Infinity };
  #expected = { requests: 0, tokens: 0 };
  #leastTokens = 0;
  /** It has gone beyond its grant since the last state. */
  #hasBorrowed = false;

  constructor(name: string, member: string, terms: FleetTerms) {
    this.name = name;
    this.member = member;
    this.#terms = terms;
  }

  /** Limits of options are counted, too. @param history - all that this process sent */
  count(history: (now: number) => SlotHistory): void {
    this.#history = history;
  }

  /** The provider's word is shared, too. */
  share(word: SharedWord): void {
    this.#word = word;
  }

  /** As `Capacity.waitMs`; undefined if nothing is known of the fleet. */
  waitMs(limits: UpstreamLimits, tokens: number, now: number): number | undefined {
    this.#limits = limits;
    this.use();
    const state = this.#stateAt(now);
    if (!state) return undefined;
    const lacks = this.#lacks(state, tokens);
    if (!lacks.any || this.#mayBorrow(state, lacks, tokens)) return 0;
    this.#ask(tokens);
    const { intervalMs } = this.#terms;
    const age = now - this.#heardAt;
    return Math.max(
      1,
      intervalMs - age,
      lacks.requests ? state.waitMs.requests - age : 0,
      lacks.tokens ? state.waitMs.tokens - age : 0,
    );
  }

  /** Until this process may send a request by its part of what the provider said is left, in ms; 0 if it may, or knows of no part. */
  wordWaitMs(tokens: number, now: number): number {
    const state = this.#stateAt(now);
    if (!state) return 0;
    const lacks = this.#lacksOfWord(tokens, now);
    if (!lacks.any || this.#mayBorrow(spareOf(state), lacks, tokens)) return 0;
    this.use();
    this.#ask(tokens);
    return Math.max(1, this.#terms.intervalMs - (now - this.#heardAt));
  }

  /** A request was sent, of what the provider counts. */
  sent(tokens: number, now: number): void {
    if (!this.#isMember) return;
    // What limits of options count has asked before.
    if (!this.#limits) this.#ask(tokens);
    if (this.#stateAt(now)) this.#hasBorrowed ||= this.#lacksOfWord(tokens, now).any;
  }

  /** The last word of the fleet, for operators; undefined if there is none. A process that doesn't use the slot hears of it for a while. */
  look(limits: UpstreamLimits, now: number): SlotState | undefined {
    this.#limits = limits;
    if (!this.#isMember) this.use();
    return this.#stateAt(now);
  }

  begin(tokens: number): void {
    this.use();
    this.#ask(tokens);
    if (this.#state) this.#hasBorrowed ||= this.#lacks(this.#state, tokens).any;
    this.#running += 1;
  }

  end(): void {
    this.#running -= 1;
  }

  /** Counts what was used; negative for what is given back. */
  add(requests: number, tokens: number, bucket: number): void {
    const used = this.#used.get(bucket) ?? { requests: 0, tokens: 0 };
    this.#used.set(bucket, { requests: used.requests + requests, tokens: used.tokens + tokens });
    if (this.#used.size > MAX_BUCKETS) {
      for (const old of this.#used.keys()) if (old <= bucket - COUNTED_BUCKETS) this.#used.delete(old);
    }
    this.#left.requests -= requests;
    this.#left.tokens -= tokens;
  }

  /** Whether it has something to say, or wants to hear something. Called once in each interval. */
  isDue(): boolean {
    this.#idle += 1;
    return this.#idle === 1 || this.#running > 0 || this.#idle % IDLE_REPORTS === 0;
  }

  get isIdle(): boolean {
    return this.#idle > IDLE_INTERVALS && this.#running === 0;
  }

  report(now: number, isLeaving = false): SlotReport {
    // Unheard for longer than its lease, it counts as gone: the words of the others count what it sent meanwhile.
    if (now - this.#heardAt > this.#terms.leaseMs) this.#word?.forget();
    if (!this.#reported) {
      this.#reported = this.#used;
      this.#used = new Map();
      this.#seq += 1;
      this.#word?.requests.beginReport();
      this.#word?.tokens.beginReport();
    }
    const { requests, tokens, least } = this.#demand;
    this.#expected = {
      requests: Math.max(requests, this.#expected.requests / 2),
      tokens: Math.max(tokens, this.#expected.tokens / 2),
    };
    if (least < Infinity) this.#leastTokens = least;
    this.#demand = { requests: 0, tokens: 0, least: Infinity };
    const wanted = {
      requests: Math.round(this.#expected.requests),
      tokens: Math.round(this.#expected.tokens),
    };
    const { requestsPerMinute, tokensPerMinute, concurrentRequests } = this.#limits ?? {};
    const { bucketMs, leaseMs } = this.#terms;
    const [requestsWord, tokensWord] = [this.#word?.requests.newWord(now), this.#word?.tokens.newWord(now)];
    return {
      slot: this.name,
      member: this.member,
      epoch: this.#epoch,
      seq: this.#seq,
      bucketMs,
      leaseMs,
      limits: {
        ...(requestsPerMinute !== undefined && { requests: requestsPerMinute }),
        ...(tokensPerMinute !== undefined && { tokens: tokensPerMinute }),
        ...(concurrentRequests !== undefined && { running: concurrentRequests }),
      },
      used: [...this.#reported].map(([bucket, used]) => ({
        agoMs: Math.max(0, Math.floor(now - (bucket + 1) * bucketMs)),
        requests: used.requests,
        tokens: Math.round(used.tokens),
      })),
      wanted: { ...wanted, running: wanted.requests },
      leastTokens: Math.round(this.#leastTokens),
      running: this.#running,
      sent: { requests: this.#word?.requests.reported ?? 0, tokens: this.#word?.tokens.reported ?? 0 },
      words: {
        ...(requestsWord && { requests: requestsWord }),
        ...(tokensWord && { tokens: tokensWord }),
      },
      isLeaving,
    };
  }

  /** Returns whether another report has to follow at once. */
  hear(state: SlotState | NewSlot, now: number): boolean {
    this.#epoch = state.epoch;
    if (state.granted) {
      this.#reported = undefined;
      this.#state = state;
      this.#heardAt = now;
      this.#hasBorrowed = false;
      // What was used since the report is part of the grant.
      let { requests, tokens } = state.granted;
      for (const used of this.#used.values()) {
        requests -= used.requests;
        tokens -= used.tokens;
      }
      this.#left = { requests, tokens };
      this.#word?.hear(state.words, now);
      return false;
    }
    this.#state = undefined;
    this.#reported = undefined;
    this.#used = new Map();
    this.#word?.forget();
    const { requests, tokens } = this.#history?.(now) ?? NO_HISTORY;
    for (const [bucket, amount] of requests) this.#used.set(bucket, { requests: amount, tokens: 0 });
    for (const [bucket, amount] of tokens) {
      this.#used.set(bucket, { requests: this.#used.get(bucket)?.requests ?? 0, tokens: amount });
    }
    return true;
  }

  /** It reports from now on. */
  use(): void {
    this.#idle = 0;
    if (this.#isMember) return;
    this.#isMember = true;
    // The words that the others have by now count what was sent meanwhile.
    this.#word?.forget();
    this.#terms.join(this);
  }

  /** It reports no more, until it is used again. */
  departed(): void {
    this.#isMember = false;
    this.#state = undefined;
    this.#reported = undefined;
  }

  #stateAt(now: number): SlotState | undefined {
    return now - this.#heardAt > this.#terms.freshMs ? undefined : this.#state;
  }

  #ask(tokens: number): void {
    this.#demand.requests += 1;
    this.#demand.tokens += tokens;
    this.#demand.least = Math.min(this.#demand.least, tokens);
  }

  #lacks(state: SlotState, tokens: number): Lack {
    const { requestsPerMinute, tokensPerMinute, concurrentRequests } = this.#limits ?? {};
    const lacksRequests = requestsPerMinute !== undefined && this.#left.requests < 1;
    const lacksTokens = tokensPerMinute !== undefined && this.#left.tokens < tokens;
    const lacksRunning = concurrentRequests !== undefined && this.#running >= state.granted.running;
    return lack(lacksRequests, lacksTokens, lacksRunning);
  }

  #lacksOfWord(tokens: number, now: number): Lack {
    const word = this.#word;
    const lacksRequests = word?.requests.exceedsGrant(1, now) ?? false;
    return lack(lacksRequests, word?.tokens.exceedsGrant(tokens, now) ?? false, false);
  }

  /** Where much is left that no process was granted, one request in each interval is let through. */
  #mayBorrow({ left, members }: Pick<SlotState, 'left' | 'members'>, lacks: Lack, tokens: number): boolean {
    if (this.#hasBorrowed) return false;
    return (
      (!lacks.requests || left.requests >= members) &&
      (!lacks.tokens || left.tokens >= 2 * tokens) &&
      (!lacks.running || left.running >= members)
    );
  }
}

/** What the grant doesn't have for a request. */
interface Lack {
  readonly requests: boolean;
  readonly tokens: boolean;
  readonly running: boolean;
  readonly any: boolean;
}

function lack(requests: boolean, tokens: boolean, running: boolean): Lack {
  return { requests, tokens, running, any: requests || tokens || running };
}

/** What no process was granted of the provider's word. */
function spareOf({ words, members }: SlotState): Pick<SlotState, 'left' | 'members'> {
  return { left: { requests: words.requests.spare, tokens: words.tokens.spare, running: 0 }, members };
}
