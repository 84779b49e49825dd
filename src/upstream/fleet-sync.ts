import { randomUUID } from 'node:crypto';

import type { Target } from '../catalog/model.ts';
import type { FleetView } from '../ledger/contract/fleet-view.ts';
import { asError } from '../platform/as-error.ts';
import { breakerName } from './circuit-breaker.ts';
import type { FleetHealth } from './fleet-health.ts';
import { FleetSlot } from './fleet-slot.ts';
import type { SharedConversations } from './shared-conversations.ts';

export interface FleetSyncOptions {
  readonly view: FleetView;
  readonly onError: (error: Error) => void;
  /** Undefined: the process neither tells nor hears what is ejected or used up. */
  readonly health?: FleetHealth | undefined;
  /** Undefined: the process neither tells nor hears where conversations are. */
  readonly conversations?: SharedConversations | undefined;
  /** A second of a minute of limits; tests have shorter ones. */
  readonly bucketMs?: number | undefined;
  /** In ms, monotonic. */
  readonly now?: () => number;
  /** Unique in the fleet. */
  readonly process?: string;
}

/** Of a bucket, which is a second. */
const INTERVAL = 1 / 4;
const FRESH = 2;
const LEASE = 3;
/** After the last request. */
const IDLE_INTERVALS = 240;
/** Used-up limits that one report names. */
const MAX_EXHAUSTED = 100;

/**
 * Tells the fleet what this process uses of the limits of providers, and learns what it may use: four times a second for each
 * slot that is in use, and never on the path of a request. Without an answer for two seconds, the process goes on alone.
 */
export class FleetSync {
  readonly #options: FleetSyncOptions & { bucketMs: number; now: () => number; process: string };
  readonly #slots = new Set<FleetSlot>();
  readonly #running = new Map<FleetSlot, Promise<void>>();
  readonly #changed = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #health: Promise<void> | undefined;
  #turns: Promise<void> | undefined;
  /** Intervals since the last request. */
  #idle = 0;
  #made = 0;
  /** Used-up limits that the fleet doesn't know of yet: until when. */
  readonly #exhausted = new Map<string, number>();
  #onExhausted: ((slot: string, until: number) => void) | undefined;
  /** What was not answered last. */
  readonly #failing = new Set<FleetSlot | FleetHealth | SharedConversations>();
  #isClosed = false;

  constructor({
    bucketMs = 1000,
    now = () => performance.now(),
    process = randomUUID(),
    ...rest
  }: FleetSyncOptions) {
    this.#options = { ...rest, bucketMs, now, process };
  }

  get health(): FleetHealth | undefined {
    return this.#options.health;
  }

  get conversations(): SharedConversations | undefined {
    return this.#options.conversations;
  }

  /** Hears of the others what a first request may need. Never rejects. */
  async ready(): Promise<void> {
    await this.#shareTurns();
  }

  slot(name: string): FleetSlot {
    const { bucketMs, process } = this.#options;
    return new FleetSlot(name, `${process}-${(this.#made += 1)}`, {
      bucketMs,
      intervalMs: bucketMs * INTERVAL,
      freshMs: bucketMs * FRESH,
      leaseMs: bucketMs * LEASE,
      join: (slot) => {
        this.#join(slot);
      },
    });
  }

  /** Calls the listener when there may be room that wasn't there. */
  onChange(listener: () => void): void {
    this.#changed.add(listener);
  }

  /** A provider said that a limit is used up. @param until - by the clock of the options */
  exhausted(slot: string, until: number): void {
    if (this.#exhausted.size < MAX_EXHAUSTED || this.#exhausted.has(slot)) this.#exhausted.set(slot, until);
  }

  /**
   * Tells the others that an operator has readmitted targets, also those that this process never used: who ejected them may be gone.
   * Never rejects.
   */
  async readmitted(targets: readonly Target[]): Promise<void> {
    const { health } = this.#options;
    if (!health) return;
    for (const target of targets) health.readmitted(breakerName(target));
    await this.#health;
    await this.#syncHealth(health);
  }

  /** Calls the listener with the limits that are used up, and until when, as any process reported. */
  onExhausted(listener: (slot: string, until: number) => void): void {
    this.#onExhausted = listener;
  }

  /** Called by each request: the process wants to know what is ejected, and where conversations are. */
  used(): void {
    this.#idle = 0;
    if (this.#isClosed || this.#timer || !this.#options.health) return;
    this.#start();
    void this.#shareTurns();
  }

  /** Reports whatever is due; resolves when it is answered. Called by a timer. */
  async tick(): Promise<void> {
    const due = [...this.#slots].filter((slot) => slot.isDue() || slot.isIdle);
    this.#idle += 1;
    const { health } = this.#options;
    await Promise.all([
      health && this.#syncHealth(health),
      this.#shareTurns(),
      ...due.map((slot) => (slot.isIdle ? this.#leave(slot) : this.#sync(slot))),
    ]);
    if (this.#slots.size > 0 || this.#idle < IDLE_INTERVALS) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Gives back what this process was granted, and tells the others of its last turns. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await Promise.all([
      this.#health,
      this.#tellLastTurns(),
      ...[...this.#slots].map((slot) => this.#leave(slot)),
    ]);
  }

  #join(slot: FleetSlot): void {
    if (this.#isClosed) return;
    this.#slots.add(slot);
    this.#start();
    // Not before the request that joins has been counted.
    queueMicrotask(() => void this.#sync(slot));
  }

  #start(): void {
    if (this.#isClosed) return;
    this.#timer ??= setInterval(() => void this.tick(), this.#options.bucketMs * INTERVAL).unref();
  }

  /** One at a time. Never rejects. */
  #syncHealth(health: FleetHealth): Promise<void> {
    this.#health ??= this.#reportHealth(health).finally(() => (this.#health = undefined));
    return this.#health;
  }

  async #reportHealth(health: FleetHealth): Promise<void> {
    const { view, process, bucketMs, now } = this.#options;
    const changes = health.report(Date.now());
    const exhausted = [...this.#exhausted].map(([slot, until]) => ({
      slot,
      forMs: Math.ceil(until - now()),
    }));
    const reported = new Map(this.#exhausted);
    try {
      const state = await view.syncHealth({ member: process, leaseMs: bucketMs * LEASE, changes, exhausted });
      health.hear(state.ejected, Date.now());
      for (const [slot, until] of reported)
        if (this.#exhausted.get(slot) === until) this.#exhausted.delete(slot);
      for (const { slot, forMs } of state.exhausted) this.#onExhausted?.(slot, now() + forMs);
      this.#failing.delete(health);
    } catch (error) {
      health.alone();
      this.#failed(health, error);
    }
  }

  /** One at a time. Never rejects. */
  async #shareTurns(): Promise<void> {
    const { conversations } = this.#options;
    if (!conversations) return;
    this.#turns ??= this.#reportTurns(conversations).finally(() => (this.#turns = undefined));
    await this.#turns;
  }

  async #reportTurns(conversations: SharedConversations): Promise<void> {
    const { view, process } = this.#options;
    try {
      let state;
      do {
        // oxlint-disable-next-line no-await-in-loop -- page by page
        state = await view.shareTurns({ member: process, ...conversations.report() });
        conversations.hear(state);
      } while (state.hasMore);
      this.#failing.delete(conversations);
    } catch (error) {
      conversations.unheard();
      this.#failed(conversations, error);
    }
  }

  async #tellLastTurns(): Promise<void> {
    await this.#turns;
    if (this.#options.conversations?.isUrgent) await this.#shareTurns();
  }

  /** One at a time. Never rejects. */
  #sync(slot: FleetSlot): Promise<void> {
    const running = this.#running.get(slot);
    if (running) return running;
    const sync = this.#report(slot, false).finally(() => this.#running.delete(slot));
    this.#running.set(slot, sync);
    return sync;
  }

  async #leave(slot: FleetSlot): Promise<void> {
    this.#slots.delete(slot);
    await this.#running.get(slot);
    await this.#report(slot, true);
    slot.departed();
    this.#failing.delete(slot);
  }

  async #report(slot: FleetSlot, isLeaving: boolean): Promise<void> {
    const { view, now } = this.#options;
    try {
      const isNew = slot.hear(await view.sync(slot.report(now(), isLeaving)), now());
      if (isNew) slot.hear(await view.sync(slot.report(now(), isLeaving)), now());
      this.#failing.delete(slot);
      for (const listener of this.#changed) listener();
    } catch (error) {
      this.#failed(slot, error);
    }
  }

  /** Says it once, until all is answered again. */
  #failed(what: FleetSlot | FleetHealth | SharedConversations, error: unknown): void {
    const isFirst = this.#failing.size === 0;
    this.#failing.add(what);
    if (!isFirst) return;
    const { message } = asError(error);
    this.#options.onError(
      new Error(`The fleet's view of providers is unavailable: ${message}`, { cause: error }),
    );
  }
}
