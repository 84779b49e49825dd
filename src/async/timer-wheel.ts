/** A member of a ring of links; alone, it is linked with itself. */
class Link {
  previous: Link = this;
  next: Link = this;

  unlink(): void {
    this.previous.next = this.next;
    this.next.previous = this.previous;
    this.previous = this;
    this.next = this;
  }

  /** Links this one in front of another. */
  linkBefore(other: Link): void {
    this.previous = other.previous;
    this.next = other;
    this.previous.next = this;
    other.previous = this;
  }
}

/** What is to happen at a time, which a `TimerWheel` sets. Setting it makes no object: it is a link itself. */
export abstract class Deadline extends Link {
  /** In ms, by the clock of the wheel. Set by the wheel. */
  dueAt = 0;

  /** The time has come: it isn't set any more. */
  abstract reached(): void;

  /** Whether it is set, and not reached. */
  get isSet(): boolean {
    return this.next !== this;
  }
}

/** Width of a slot, and the longest time between two ticks while something is set. */
const SLOT_MS = 64;
/** Half a minute of slots. What is due later stays in its slot while that comes round. */
const SLOTS = 512;
/** A tick that is later than this was delayed by a stall of this process. */
const LATE_MS = 20;
const MAX_STALL_MS = 5000;

/**
 * One timer for the timeouts and leases of all requests, of which almost none is ever reached.
 *
 * Its clock stands still while this process is stalled, as far as its ticks show that: an event loop that was blocked runs its
 * timers before it reads its sockets, and would take its own stall for the silence of another. It stands still for `MAX_STALL_MS`
 * at most, and after that for as long as it has run since: where all is slow, timeouts expire, too. It doesn't keep the process alive.
 */
export class TimerWheel {
  readonly #slots: readonly Link[] = Array.from({ length: SLOTS }, () => new Link());
  /** Taken from their slots, to be called. */
  readonly #due = new Link();
  /** How many are set. */
  #size = 0;
  /** The first slot that the next tick looks at, counted from the start of the clock. */
  #slot = 0;
  /** How much this clock is behind the real one. */
  #lostMs = 0;
  /** For how long it may stand still. */
  #stallMs = MAX_STALL_MS;
  #tickedAt = 0;
  /** When the next tick is; undefined if there is none. */
  #nextAt: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Sets a deadline, also one that was set before. */
  set(deadline: Deadline, ms: number): void {
    this.clear(deadline);
    const now = this.#now();
    if (this.#size === 0) this.#slot = slotAt(now);
    this.#size += 1;
    deadline.dueAt = Math.ceil(now + Math.max(0, ms));
    deadline.linkBefore(this.#ring(slotAt(deadline.dueAt)));
    this.#tickBy(deadline.dueAt, now);
  }

  /** Idempotent. */
  clear(deadline: Deadline): void {
    if (!deadline.isSet) return;
    deadline.unlink();
    this.#size -= 1;
  }

  #now(): number {
    return performance.now() - this.#lostMs;
  }

  #ring(slot: number): Link {
    const ring = this.#slots[slot % SLOTS];
    if (!ring) throw new RangeError(`The wheel has no slot ${slot}`);
    return ring;
  }

  /** Has a tick by this time, and by the end of the current slot. */
  #tickBy(at: number, now: number): void {
    const next = Math.min(at, (slotAt(now) + 1) * SLOT_MS);
    if (this.#nextAt !== undefined && this.#nextAt <= next) return;
    clearTimeout(this.#timer);
    this.#nextAt = next;
    if (this.#timer === undefined) this.#tickedAt = now;
    this.#timer = setTimeout(this.#tick, Math.ceil(next - now)).unref();
  }

  readonly #tick = (): void => {
    const now = this.#resume(this.#nextAt ?? 0);
    this.#timer = undefined;
    this.#nextAt = undefined;
    this.#tickedAt = now;
    const last = slotAt(now);
    let nextAt = Infinity;
    for (let slot = Math.max(this.#slot, last - SLOTS + 1); slot <= last; slot++) {
      nextAt = Math.min(nextAt, this.#takeDue(this.#ring(slot), now));
    }
    this.#slot = last;
    if (this.#size > 0) this.#tickBy(nextAt, now);
    while (this.#due.next instanceof Deadline) {
      const deadline = this.#due.next;
      this.clear(deadline);
      deadline.reached();
    }
  };

  /** Goes on from a tick that was to be at this time. Returns the time. */
  #resume(expectedAt: number): number {
    const lateMs = this.#now() - expectedAt;
    this.#stallMs = Math.min(MAX_STALL_MS, this.#stallMs + expectedAt - this.#tickedAt);
    if (lateMs > LATE_MS) {
      const lostMs = Math.min(lateMs, this.#stallMs);
      this.#stallMs -= lostMs;
      this.#lostMs += lostMs;
    }
    return this.#now();
  }

  /** @returns when the first of those is due that stay */
  #takeDue(ring: Link, now: number): number {
    let nextAt = Infinity;
    let link = ring.next;
    while (link instanceof Deadline) {
      const deadline = link;
      link = link.next;
      if (deadline.dueAt > now) nextAt = Math.min(nextAt, deadline.dueAt);
      else {
        deadline.unlink();
        deadline.linkBefore(this.#due);
      }
    }
    return nextAt;
  }
}

function slotAt(ms: number): number {
  return Math.floor(ms / SLOT_MS);
}
