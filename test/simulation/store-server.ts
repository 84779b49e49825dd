import type { LedgerStore } from '../../src/ledger/ledger.ts';
import { MemoryStore } from '../../src/ledger/memory/memory-store.ts';
import { Actor, type VirtualTime } from './virtual-time.ts';

/** A command that changes something, as the server took it. */
export interface Entry {
  /** When it came, by the right time and by the server's clock. */
  readonly wall: number;
  readonly at: number;
  /** Who sent it. */
  readonly from: string;
  readonly name: Command;
  /** The id of its request, grant or adjustment, or the key or account that it is about. */
  readonly about: string;
  readonly account: string;
  readonly run: (store: LedgerStore) => Promise<unknown>;
}

export type Command = Exclude<keyof LedgerStore, 'mayRollBack' | 'losses' | 'ready' | 'accounts' | 'close'>;

export interface StoreServerOptions {
  readonly time: VirtualTime;
  /** Changes the state machine inside, to plant a bug. */
  readonly plant?: ((store: LedgerStore) => LedgerStore) | undefined;
  /** Called with every command that was applied, and its result. */
  readonly onApplied: (entry: Entry, result: unknown) => void;
}

/**
 * The server that the store is on, with its replicas: a MemoryStore and the log of what it took.
 *
 * A failover is a fresh MemoryStore with the beginning of that log, run at the same times.
 */
export class StoreServer {
  readonly actor = new Actor('store');
  readonly #options: StoreServerOptions;
  readonly #clock: { replayed: number | undefined } = { replayed: undefined };
  #log: Entry[] = [];
  #inside: LedgerStore;
  /** So many entries no failover takes. */
  #safe = 0;
  isUp = true;
  /** Counts the times at which another server took its place. */
  failovers = 0;
  /** Set while it runs without any of its data. */
  #isEmpty = false;
  #kept: Entry[] = [];

  constructor(options: StoreServerOptions) {
    this.#options = options;
    this.#inside = this.#fresh();
  }

  /** The store's clock. */
  get now(): number {
    return this.#clock.replayed ?? Math.floor(this.#options.time.now + this.actor.clockOffset);
  }

  /** What it is now, for checks that change nothing. */
  get inside(): LedgerStore {
    return this.#inside;
  }

  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  get length(): number {
    return this.#log.length;
  }

  /** It has taken this, and no failover has taken it back. */
  has(name: Command, about: string): boolean {
    return this.#log.some((entry) => entry.name === name && entry.about === about);
  }

  async apply<T>(
    name: Command,
    from: string,
    account: string,
    about: string,
    run: (store: LedgerStore) => Promise<T>,
  ): Promise<T> {
    const entry: Entry = { wall: this.#options.time.now, at: this.now, from, name, about, account, run };
    if (CHANGES.has(name)) this.#log.push(entry);
    const result = await run(this.#inside);
    this.#options.onApplied(entry, result);
    return result;
  }

  /** So many entries are on a replica and on a disk, and somebody was told. */
  makeSafe(length: number): void {
    this.#safe = Math.max(this.#safe, Math.min(length, this.#log.length));
  }

  /** Goes back to what a replica has that lagged so far behind, or a disk that was synced so long ago. */
  rollBack(lagMs: number): readonly Entry[] {
    const until = this.#options.time.now - lagMs;
    let length = this.#log.length;
    while (length > this.#safe && (this.#log[length - 1]?.wall ?? 0) > until) length -= 1;
    const lost = this.#log.splice(length);
    this.failovers += 1;
    if (lost.length > 0) this.#inside = this.#replayed();
    return lost;
  }

  /** As a restart without its files: it answers, and knows nothing. */
  forgetAll(): void {
    this.#kept = this.#log;
    this.#log = [];
    this.#inside = this.#fresh();
    this.#isEmpty = true;
    this.failovers += 1;
  }

  /** Its operator found the files. */
  restore(): readonly Entry[] {
    const lost = this.#log;
    this.#log = this.#kept;
    this.#kept = [];
    this.#inside = this.#replayed();
    this.#isEmpty = false;
    this.failovers += 1;
    return lost;
  }

  /** A store that took the same commands at the same times. */
  async twin(): Promise<LedgerStore> {
    const fresh = this.#fresh();
    await this.#replay(fresh);
    return fresh;
  }

  /** It is there at the end of the event: a MemoryStore waits for nothing. */
  #replayed(): LedgerStore {
    const fresh = this.#fresh();
    void this.#replay(fresh);
    return fresh;
  }

  async #replay(fresh: LedgerStore): Promise<void> {
    for (const { at, run } of this.#log) {
      this.#clock.replayed = at;
      // What was refused then is refused now.
      await run(fresh).catch(() => {});
    }
    this.#clock.replayed = undefined;
  }

  #fresh(): LedgerStore {
    const store = new MemoryStore({ now: () => this.now });
    return this.#options.plant?.(store) ?? store;
  }
}

const CHANGES: ReadonlySet<Command> = new Set<Command>([
  'admit',
  'extend',
  'settle',
  'void',
  'grant',
  'adjust',
  'sweep',
  // It expires credits that are due.
  'balance',
  'trim',
  'foldUsage',
  'freeze',
  'createKey',
  'updateKey',
  'rotateKey',
  'revokeKey',
]);
