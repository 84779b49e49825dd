/**
 * What the processes that share a store know together of providers and of conversations, beside the books: a process may lose it, and no
 * amount of money depends on it. No request waits for it.
 *
 * A **slot** is what one limit counts: the requests of a provider's key, for one model or for all. What the provider itself says is
 * left of its limits is its **word**.
 */
export interface FleetView {
  /**
   * Reports what this process did since its last report, and returns what it may do until the next one. Reports of one `member`
   * come one after the other.
   *
   * @returns `{ epoch }` alone if that is not the epoch of the report: the slot is new, or was lost. Then nothing was counted, and
   *   the next report has all that the process did in the last minute
   */
  sync(report: SlotReport): Promise<SlotState | NewSlot>;

  /** Reports which targets failed or recovered for this process, and which limits are used up; returns what all know. */
  syncHealth(report: HealthReport): Promise<HealthState>;

  /** Tells where this process served turns of conversations, and returns where the others did before, oldest first. */
  shareTurns(report: TurnReport): Promise<TurnState>;
}

export interface TurnReport {
  readonly member: string;
  /** The number of the last state; 0 before the first. */
  readonly since: number;
  readonly turns: readonly ServedTurn[];
}

export interface TurnState {
  readonly number: number;
  /** There are more, and the turns of this report were not taken: report again. */
  readonly hasMore: boolean;
  readonly turns: readonly ServedTurn[];
}

/** Where a turn of an account's conversation was served. */
export interface ServedTurn {
  readonly account: string;
  /** A hash. */
  readonly turn: number;
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  /** The name of the provider's key; undefined for a client's own. */
  readonly key: string | undefined;
  /** How long it is still of use. */
  readonly forMs: number;
}

export interface HealthReport {
  readonly member: string;
  /** How long a member may take to begin with the probe that it was given. */
  readonly leaseMs: number;
  readonly changes: readonly TargetChange[];
  readonly exhausted: readonly ExhaustedSlot[];
}

export interface HealthState {
  readonly ejected: readonly EjectedTarget[];
  readonly exhausted: readonly ExhaustedSlot[];
}

/** A provider said that nothing is left of a limit. */
export interface ExhaustedSlot {
  readonly slot: string;
  /** For how long. */
  readonly forMs: number;
}

/** Of one target: it recovered, it was ejected, or this member is probing it. */
export type TargetChange =
  | { readonly target: string; readonly type: 'recovered' | 'probing' }
  | {
      readonly target: string;
      readonly type: 'ejected';
      readonly retryInMs: number;
      readonly ejections: number;
    };

export interface EjectedTarget {
  readonly target: string;
  /** Until it is probed; 0 from then on. */
  readonly retryInMs: number;
  /** How often it was ejected in a row. */
  readonly ejections: number;
  /** This member probes it, and no other. */
  readonly mayProbe: boolean;
}

export interface SlotReport {
  readonly slot: string;
  /** Whose report it is: a process, unique in the fleet. */
  readonly member: string;
  /** Of the last state; empty before the first. */
  readonly epoch: string;
  /** What was used is counted once for each number; they rise. */
  readonly seq: number;
  /** A minute has 60 of these; 1000. */
  readonly bucketMs: number;
  /** After this without a report, the member is gone. What it was granted counts as used. */
  readonly leaseMs: number;
  readonly limits: Partial<SlotAmounts>;
  readonly used: readonly SlotUse[];
  /** Requests and tokens that it expects to need until its next report, and how many more requests to run. */
  readonly wanted: SlotAmounts;
  /** Fewer tokens are of no use to it. */
  readonly leastTokens: number;
  /** Its running requests. */
  readonly running: number;
  /** What it sent since its last report, of what the provider counts. */
  readonly sent: WordAmounts<number>;
  /** The provider's word, as far as it is newer than the one of the last state. */
  readonly words: Partial<WordAmounts<LimitWord>>;
  /** It wants no more: what it was granted is given back. */
  readonly isLeaving: boolean;
}

export interface WordAmounts<T> {
  readonly requests: T;
  readonly tokens: T;
}

/** What a provider said is left of a limit, when it had seen one request. */
export interface LimitWord {
  readonly left: number;
  /** What all members had sent then, as in `WordState.sent`; undefined if the member knows of no state yet: `left` is as of now. */
  readonly at: number | undefined;
  /** Until the limit resets. */
  readonly forMs: number;
}

/** The newest word of all members, and how it is divided. */
export interface WordState {
  readonly left: number;
  readonly at: number;
  /** Until the limit resets; 0 if there is no word, or it is over. */
  readonly forMs: number;
  /** What all members sent, since the slot began. */
  readonly sent: number;
  /** What the member may send until its next report, all that it was granted before included. */
  readonly granted: number;
  /** What no member was granted. */
  readonly spare: number;
}

export interface SlotAmounts {
  readonly requests: number;
  readonly tokens: number;
  readonly running: number;
}

/** Requests and tokens; negative if they were counted before and were not used. */
export interface SlotUse {
  /** How long ago, at least. */
  readonly agoMs: number;
  readonly requests: number;
  readonly tokens: number;
}

/** A slot of which the store knows nothing, or not what the member has reported. */
export interface NewSlot {
  readonly epoch: string;
  readonly granted?: undefined;
}

export interface SlotState {
  readonly epoch: string;
  /** What the member may use until its next report, all that it was granted before included; of `running`, how many may run. */
  readonly granted: SlotAmounts;
  /** What no member was granted. */
  readonly left: SlotAmounts;
  /** What the fleet used in the last minute, and runs. */
  readonly used: SlotAmounts;
  readonly members: number;
  /** Until one request, and the least tokens, are free again; 0 if they are. */
  readonly waitMs: { readonly requests: number; readonly tokens: number };
  readonly words: WordAmounts<WordState>;
}
