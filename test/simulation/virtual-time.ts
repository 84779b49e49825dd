/**
 * Virtual time, which advances only from event to event, for simulated processes.
 *
 * While it runs, the timers, `Date.now`, `performance.now` and `Math.random` are those of the actor of the current
 * event. An event ends when no microtask is left, so code after an `await` still runs for the right actor.
 */
export class VirtualTime {
  readonly #queue = new EventQueue();
  readonly #random: () => number;
  readonly #startedAt: number;
  #now: number;
  #order = 0;
  #actor: Actor | undefined;
  #stopped = false;
  /** Number of events so far. */
  events = 0;

  constructor(startAt: number, random: () => number) {
    this.#startedAt = startAt;
    this.#now = startAt;
    this.#random = random;
  }

  /** True time in ms, with fractions, independent of the clocks of the actors. */
  get now(): number {
    return this.#now;
  }

  /** Runs something for an actor, unless it is dead by then. */
  after(actor: Actor, ms: number, run: () => void): SimulatedTimer {
    return this.#add(actor, Math.max(0, ms), run, undefined);
  }

  /** Ends the current run, and later ones. */
  stop(): void {
    this.#stopped = true;
  }

  /** Lets time pass. */
  async run(until: number): Promise<void> {
    const restore = this.#takeGlobals();
    try {
      await new Promise<void>((resolve, reject) => {
        const step = (): void => {
          try {
            if (this.#runNext(until)) realSetImmediate(step);
            else resolve();
          } catch (error) {
            reject(error);
          }
        };
        realSetImmediate(step);
      });
    } finally {
      this.#actor = undefined;
      restore();
    }
  }

  #runNext(until: number): boolean {
    if (this.#stopped) return false;
    const timer = this.#queue.first;
    if (!timer || timer.at > until) {
      this.#now = until;
      return false;
    }
    this.#queue.removeFirst();
    const { actor } = timer;
    if (timer.cancelled || !actor.alive) return true;
    this.#now = Math.max(this.#now, timer.at);
    if (actor.stalledUntil > this.#now) {
      timer.at = actor.stalledUntil;
      timer.order = this.#order += 1;
      this.#queue.add(timer);
      return true;
    }
    this.events += 1;
    this.#actor = actor;
    if (timer.every === undefined) {
      timer.over = true;
    } else {
      timer.at = this.#now + timer.every;
      timer.order = this.#order += 1;
      this.#queue.add(timer);
    }
    timer.run();
    return true;
  }

  #add(actor: Actor, ms: number, run: () => void, every: number | undefined): SimulatedTimer {
    const timer = new SimulatedTimer(actor, this.#now + ms, (this.#order += 1), run, every);
    this.#queue.add(timer);
    return timer;
  }

  #takeGlobals(): () => void {
    const { setTimeout, setInterval, clearTimeout, clearInterval } = globalThis;
    const dateNow = Date.now;
    const performanceNow = performance.now.bind(performance);
    const mathRandom = Math.random;
    const timer =
      (repeats: boolean) =>
      (run: (...args: unknown[]) => void, ms = 1, ...args: unknown[]): SimulatedTimer => {
        if (!this.#actor) throw new Error('a timer was set between two events');
        // As Node does.
        const delay = ms >= 1 && ms <= 2_147_483_647 ? ms : 1;
        return this.#add(this.#actor, delay, () => run(...args), repeats ? delay : undefined);
      };
    const clear = (timer: unknown): void => {
      if (timer instanceof SimulatedTimer) timer.cancelled = true;
      else clearTimeout(timer as NodeJS.Timeout | undefined);
    };
    Object.assign(globalThis, {
      setTimeout: timer(false),
      setInterval: timer(true),
      clearTimeout: clear,
      clearInterval: clear,
    });
    Date.now = () => (this.#actor ? Math.floor(this.#now + this.#actor.clockOffset) : dateNow());
    // It never steps.
    performance.now = () => (this.#actor ? this.#now - this.#startedAt : performanceNow());
    Math.random = this.#random;
    return () => {
      Object.assign(globalThis, { setTimeout, setInterval, clearTimeout, clearInterval });
      Date.now = dateNow;
      performance.now = performanceNow;
      Math.random = mathRandom;
    };
  }
}

/** A simulated process with its own clock and lifetime. */
export class Actor {
  readonly name: string;
  /** Error of its clock, in ms. Its timers are unaffected. */
  clockOffset = 0;
  alive = true;
  /** It is suspended until then. */
  stalledUntil = 0;

  constructor(name: string) {
    this.name = name;
  }
}

/** The used part of what `setTimeout` returns. */
export class SimulatedTimer {
  readonly actor: Actor;
  readonly run: () => void;
  readonly every: number | undefined;
  at: number;
  order: number;
  cancelled = false;
  over = false;

  constructor(actor: Actor, at: number, order: number, run: () => void, every: number | undefined) {
    this.actor = actor;
    this.at = at;
    this.order = order;
    this.run = run;
    this.every = every;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return !this.over && !this.cancelled;
  }
}

/** Ordered by time, then by creation: a binary heap. */
class EventQueue {
  readonly #heap: SimulatedTimer[] = [];

  get first(): SimulatedTimer | undefined {
    return this.#heap[0];
  }

  add(timer: SimulatedTimer): void {
    const heap = this.#heap;
    let position = heap.length;
    for (;;) {
      const above = (position - 1) >> 1;
      const parent = heap[above];
      if (position === 0 || !parent || isBefore(parent, timer)) break;
      heap[position] = parent;
      position = above;
    }
    heap[position] = timer;
  }

  removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let position = 0;
    for (;;) {
      const left = 2 * position + 1;
      const [a, b] = [heap[left], heap[left + 1]];
      const child = a && b && isBefore(b, a) ? b : a;
      if (!child || isBefore(last, child)) break;
      heap[position] = child;
      position = child === a ? left : left + 1;
    }
    heap[position] = last;
  }
}

function isBefore(a: SimulatedTimer, b: SimulatedTimer): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

const realSetImmediate = setImmediate;
