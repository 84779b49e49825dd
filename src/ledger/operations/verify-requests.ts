import type { AccountState, JournalLine, RequestRecord } from '../contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../contract/money.ts';
import { isRequestId, requestTime } from '../contract/request-ids.ts';

/** Checks that each request of an account was posted at most once, possibly in parts, and agrees with its record. */
export class RequestVerifier {
  readonly #state: AccountState;
  readonly #isSelected: (id: string) => boolean;
  readonly #report: (id: string, problem: string) => void;
  /** No line was compacted, so the journal is complete. */
  readonly #isWhole: boolean;
  readonly #posted = new Map<string, Posted>();
  readonly #refunded = new Set<string>();

  /** @param isSelected - selects the request ids to check; `add` must be called with all of their lines */
  constructor(
    state: AccountState,
    isSelected: (id: string) => boolean,
    report: (id: string, problem: string) => void,
  ) {
    this.#state = state;
    this.#isSelected = isSelected;
    this.#report = report;
    this.#isWhole = state.compacted.seq === 0n;
  }

  /** Adds the next line of the journal; ignores lines of other ids, and those that belong to no request. */
  add({ type, id, seq, amount, usage }: JournalLine): void {
    if (type === 'g' || type === 'a' || type === 'x' || !this.#isSelected(id)) return;
    if (type === 'r') return this.#addRefund(id, seq, -amount);
    const known = type === 'l' ? this.#posted.get(id) : this.#postedOf(id);
    const before = known ?? { expiry: undefined, end: undefined, total: 0n };
    const { expiry, end } = before;
    const total = before.total + amount;
    const isPart = type === 'l' && !usage && amount > 0n;
    if (end?.isCharge && isPart) {
      this.#posted.set(id, { ...before, total });
      return;
    }
    if (end) {
      this.#report(id, `was posted by line ${end.seq}, and again by line ${seq}`);
    } else if (expiry !== undefined && type !== 'l') {
      this.#report(id, `expired by line ${expiry}, and was charged in full again by line ${seq}`);
    } else if (expiry === undefined && type === 'l' && this.#isWhole) {
      this.#report(id, `is corrected by line ${seq}, but never expired`);
    }
    this.#posted.set(id, {
      expiry: type === 'e' ? seq : expiry,
      end: type === 'e' ? end : { seq, isLate: type === 'l', isCharge: type !== 'l' || !!usage || isPart },
      total,
    });
  }

  #addRefund(id: string, seq: bigint, amount: NanoDollars): void {
    if (this.#refunded.has(id)) this.#report(id, `was refunded before, and again by line ${seq}`);
    this.#refunded.add(id);
    const posted = this.#posted.get(id);
    if (posted && amount > posted.total && this.#isComplete(posted)) {
      const { total } = posted;
      this.#report(id, `was charged ${formatUsd(total)}, but line ${seq} refunds ${formatUsd(amount)}`);
    }
  }

  /** Compares what was posted with the records. */
  close(): void {
    for (const record of this.#state.requests) {
      if (!this.#isSelected(record.id)) continue;
      const posted = record.state === 'settled' ? this.#posted.get(record.id) : this.#postedOf(record.id);
      const problem = this.#recordProblem(record, posted);
      if (problem !== undefined) this.#report(record.id, problem);
      this.#posted.delete(record.id);
    }
    for (const [id, { total }] of this.#posted) {
      if (!isRequestId(id))
        this.#report(id, `was charged ${formatUsd(total)}, but its id is not a valid request id`);
      // Records of requests that cost nothing are deleted sooner.
      else if (total > 0n && requestTime(id) > this.#state.lowWater) {
        this.#report(id, `was charged ${formatUsd(total)}, but has no record, and is too new to be deleted`);
      }
    }
  }

  /** Excludes requests that cost nothing and may be deleted: their ids can be used again. */
  #postedOf(id: string): Posted | undefined {
    const posted = this.#posted.get(id);
    const isForgotten =
      posted?.end && posted.total === 0n && isRequestId(id) && requestTime(id) <= this.#state.freeLowWater;
    return isForgotten ? undefined : posted;
  }

  /** Whether the journal has all lines of a request: that of a corrected expiry may have been compacted. */
  #isComplete({ expiry, end }: Posted): boolean {
    return this.#isWhole || expiry !== undefined || end?.isLate === false;
  }

  #recordProblem({ state, amount }: RequestRecord, posted: Posted | undefined): string | undefined {
    const isPosted = state === 'settled' || state === 'expired';
    if (!posted) return isPosted && this.#isWhole ? `is ${state}, but has no line in the journal` : undefined;
    const { end, total } = posted;
    if (state === 'held') return `is held, but was charged ${formatUsd(total)}`;
    if (state === 'expired' && end) return `is expired, but was posted by line ${end.seq}`;
    if (state === 'settled' && !end) return 'is settled, but only its expiry is in the journal';
    const charged = isPosted ? amount : 0n;
    if (!this.#isComplete(posted) || total === charged) return undefined;
    return `is ${state} with ${formatUsd(charged)} charged, but its lines total ${formatUsd(total)}`;
  }
}

interface Posted {
  /** Position of the line of its lease expiry. */
  readonly expiry: bigint | undefined;
  /** The line that settled it, or voided it after its expiry; of a charge in parts, the first one in the journal. */
  readonly end: { readonly seq: bigint; readonly isLate: boolean; readonly isCharge: boolean } | undefined;
  readonly total: NanoDollars;
}
