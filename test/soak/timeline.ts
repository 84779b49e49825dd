/** Writes of the store that were acknowledged and then lost, those from one time to another. */
export interface Loss {
  readonly from: number;
  readonly to: number;
}

/** Something that was broken for a while. */
export interface Fault {
  readonly name: string;
  /** When it could first be felt. */
  startedAt: number;
  /** Infinity while it lasts. */
  healedAt: number;
  readonly notes: string[];
}

/** What was done to gateways and their store, and when; times are `Date.now()`. */
export class Timeline {
  readonly faults: Fault[] = [];
  readonly losses: Loss[] = [];
  /** While the store had none of its accounts. */
  readonly empty: Loss[] = [];

  begin(name: string): Fault {
    const fault: Fault = { name, startedAt: Date.now(), healedAt: Infinity, notes: [] };
    this.faults.push(fault);
    return fault;
  }

  /** @param graceMs - so long after its end a fault still counts */
  isCalm(at: number, graceMs = 0): boolean {
    return !this.faults.some(({ startedAt, healedAt }) => startedAt <= at && at < healedAt + graceMs);
  }
}
