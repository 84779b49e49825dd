import { AsyncResource } from 'node:async_hooks';

import { Link } from './link.ts';

/** What is to happen at a time that is set in a `TimerWheel`. Setting it makes no object: it is a link itself. */
export abstract class Deadline extends Link {
  /** In ms, by the clock of the wheel, which sets it. */
  dueAt = 0;

  /** It waits for another process: while it is set, this process stays alive, and the wheel looks for stalls. */
  abstract get isWait(): boolean;

  /** The time has come: it isn't set any more. */
  abstract reached(): void;

  /** Whether it is set, and not reached. */
  get isSet(): boolean {
    return this.next !== this;
  }
}

/** Width of a slot, and the longest time between two ticks during a wait. */
const SLOT_MS = 64;
/** Half a minute of slots. What is due later stays in its slot while that comes round. */
const SLOTS = 512;
/** A tick that is later than this was delayed by a stall of this process. */
const LATE_MS = 20;
/** The longest stall for which the clock stands still. */
const MAX_STALL_MS = 1000;

/**
 * One timer for the timeouts and leases of all requests, of which almost none is ever reached.
 *
 * Its clock stands still while this process is stalled: an event loop that was blocked runs its timers before it reads its
 * sockets, and would take its own stall for the silence of another process. It stands still for a second at most, and then
 * again once it has run for as long. So a timeout is late by a second at most; in a process that stalls all the time, by a second
 * and its own length.
 */
export class TimerWheel {
  readonly #slots: readonly Link[] = Array.from({ length: SLOTS }, () => new Link());
  /** Taken from their slots, to be called. */
  readonly #due = new Link();
  /** How many are set. */
  #size = 0;
  #waits = 0;
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
  /** The timer has the context of no request: it goes on for the next ones. */
  readonly #context = new AsyncResource('TimerWheel');

  /** Sets a deadline, also one that was set before. */
  set(deadline: Deadline, ms: number): void {
    this.clear(deadline);
    const now = this.#caughtUp();
    const dueAt = Math.ceil(now + Math.max(0, ms));
    const ring = this.#ring(slotAt(dueAt));
    if (this.#size === 0) this.#slot = slotAt(now);
    this.#size += 1;
    deadline.dueAt = dueAt;
    deadline.linkBefore(ring);
    if (deadline.isWait) this.#addWaits(1);
    this.#tickBy(this.#waits > 0 ? Math.min(dueAt, endOfSlot(now)) : dueAt, now);
  }

  /** Idempotent. */
  clear(deadline: Deadline): void {
    if (!deadline.isSet) return;
    deadline.unlink();
    this.#size -= 1;
    if (deadline.isWait) this.#addWaits(-1);
  }

  #addWaits(more: number): void {
    this.#waits += more;
    if (this.#waits === 0) this.#timer?.unref();
    else if (this.#waits === more) this.#timer?.ref();
  }

  #now(): number {
    return performance.now() - this.#lostMs;
  }

  /** The time, without a stall that the next tick has not seen yet. An app's fake timers may also have taken that tick. */
  #caughtUp(): number {
    const now = this.#now();
    const expectedAt = this.#nextAt;
    if (expectedAt === undefined) return now;
    const isLate = now > expectedAt + LATE_MS;
    if (!isLate && now >= this.#tickedAt) return now;
    this.#resume(expectedAt);
    const resumedAt = this.#now();
    this.#slot = Math.min(this.#slot, slotAt(resumedAt));
    this.#tickedAt = resumedAt;
    this.#nextAt = undefined;
    this.#tickBy(resumedAt, resumedAt);
    return resumedAt;
  }

  #ring(slot: number): Link {
    const ring = this.#slots[slot % SLOTS];
    if (!ring) throw new RangeError(`The wheel has no slot ${slot}`);
    return ring;
  }

  /** Makes sure that there is a tick by this time. */
  #tickBy(at: number, now: number): void {
    if (this.#nextAt !== undefined && this.#nextAt <= at) return;
    clearTimeout(this.#timer);
    if (this.#nextAt === undefined) this.#tickedAt = now;
    this.#nextAt = at;
    const timer = this.#context.runInAsyncScope(setTimeout, undefined, this.#tick, Math.ceil(at - now));
    this.#timer = this.#waits > 0 ? timer : timer.unref();
  }

  readonly #tick = (): void => {
    this.#resume(this.#nextAt ?? 0);
    const now = this.#now();
    this.#timer = undefined;
    this.#nextAt = undefined;
    const last = slotAt(now);
    let nextAt = Infinity;
    for (let slot = Math.max(this.#slot, last - SLOTS + 1); slot <= last; slot++) {
      nextAt = Math.min(nextAt, this.#takeDue(this.#ring(slot), now));
    }
    this.#slot = last;
    if (this.#size > 0) this.#tickBy(Math.min(nextAt, this.#nextLook(now)), now);
    while (this.#due.next instanceof Deadline) {
      const deadline = this.#due.next;
      this.clear(deadline);
      deadline.reached();
    }
  };

  /** The clock goes on from a tick that was to be at this time. */
  #resume(expectedAt: number): void {
    const lateMs = this.#now() - expectedAt;
    this.#stallMs = Math.min(MAX_STALL_MS, this.#stallMs + Math.max(0, expectedAt - this.#tickedAt));
    if (lateMs <= LATE_MS) return;
    const lostMs = Math.min(lateMs, this.#stallMs);
    this.#stallMs -= lostMs;
    this.#lostMs += lostMs;
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

  /** The end of this slot during a wait, else the beginning of the next slot that has something. */
  #nextLook(now: number): number {
    let slot = slotAt(now) + 1;
    if (this.#waits > 0) return slot * SLOT_MS;
    const last = slot + SLOTS;
    while (slot < last && this.#ring(slot).next === this.#ring(slot)) slot += 1;
    return slot * SLOT_MS;
  }
}

function slotAt(ms: number): number {
  return Math.floor(ms / SLOT_MS);
}

function endOfSlot(ms: number): number {
  return (slotAt(ms) + 1) * SLOT_MS;
}
