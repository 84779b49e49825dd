import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../src/ledger/stores/memory/memory-store.ts';
import { Actor, type VirtualTime } from './virtual-time.ts';

/** A command on its way. */
export interface Sent {
  readonly sentAt: number;
  readonly name: Command;
  /** The id of its request, grant or adjustment, or the key or account that it is about. */
  readonly about: string;
  readonly account: string;
  readonly run: (store: LedgerStore) => Promise<unknown>;
}

/** A command as the server took it. */
export interface Entry extends Sent {
  /** Who sent it. */
  readonly from: string;
  /** When it came, by the right time and by the server's clock. */
  readonly wall: number;
  readonly at: number;
}

export type Command = Exclude<keyof LedgerStore, 'mayRollBack' | 'losses' | 'ready' | 'accounts' | 'close'>;

export interface StoreServerOptions {
  readonly time: VirtualTime;
  /** Changes the state machine inside, to plant a bug. */
  readonly plant?: ((store: LedgerStore, now: () => number) => LedgerStore) | undefined;
  /** Called with every command that was applied, and its result. */
  readonly onApplied: (entry: Entry, result: unknown) => void;
  /** Called with every command that has made its account. */
  readonly onMade: (entry: Entry) => void;
}

const LOOKS_EVERY_MS = 30_000;

/** A server with what it took. */
interface Primary {
  readonly log: Entry[];
  readonly inside: LedgerStore;
  /** How many had been the primary before. */
  readonly epoch: number;
  /** Of its process and its history, as it tells it. */
  readonly identity: number;
}

/**
 * The server that the store is on, with its replicas: a MemoryStore and the log of what it took.
 *
 * A failover is a fresh MemoryStore with the beginning of that log, run at the same times.
 */
export class StoreServer {
  readonly actor = new Actor('store');
  readonly #options: StoreServerOptions;
  /** When what is being repeated was applied, by the store's clock and by the right time. */
  readonly #clock: { replayed: { readonly at: number; readonly wall: number } | undefined } = {
    replayed: undefined,
  };
  #primary: Primary;
  /** The primary before, where it does not know yet that it is none, and those who still ask it. */
  #former: { readonly primary: Primary; readonly clients: ReadonlySet<string> } | undefined;
  /** So many entries no failover takes. */
  #safe = 0;
  isUp = true;
  /** What it had before it lost all of its data; undefined while it has them. */
  #kept: Entry[] | undefined;
  #epochs = 0;

  constructor(options: StoreServerOptions) {
    this.#options = options;
    this.#primary = { log: [], inside: this.#fresh(), epoch: 0, identity: 0 };
  }

  /** The store's clock. */
  get now(): number {
    return this.#clock.replayed?.at ?? Math.floor(this.#options.time.now + this.actor.clockOffset);
  }

  /** What it is now, for checks that change nothing. */
  get inside(): LedgerStore {
    return this.#primary.inside;
  }

  get isEmpty(): boolean {
    return this.#kept !== undefined;
  }

  get length(): number {
    return this.#primary.log.length;
  }

  /** What a client finds. */
  insideFor(client: string): LedgerStore {
    return this.#primaryOf(client).inside;
  }

  /** Rises for a client with each server that takes the place of the one before. */
  epochFor(client: string): number {
    return this.#primaryOf(client).epoch;
  }

  /** Changes with each other server that a client finds, but not where one merely loses its data. */
  identityFor(client: string): number {
    return this.#primaryOf(client).identity;
  }

  /** A client still asks a server that is no primary any more. */
  isFormerFor(client: string): boolean {
    return this.#former?.clients.has(client) === true;
  }

  /** It has taken this, and no failover has taken it back. */
  has(name: Command, about: string): boolean {
    return this.#primary.log.some((entry) => entry.name === name && entry.about === about);
  }

  async apply(command: Sent & { readonly from: string }): Promise<unknown> {
    const entry: Entry = { ...command, wall: this.#options.time.now, at: this.now };
    const { log, inside } = this.#primaryOf(entry.from);
    if (CHANGES.has(entry.name)) log.push(entry);
    const mayMake = MAKES_ACCOUNTS.has(entry.name) && !(await inside.snapshot(entry.account));
    const result = await entry.run(inside);
    this.#options.onApplied(entry, result);
    if (mayMake && (await inside.snapshot(entry.account))) this.#options.onMade(entry);
    return result;
  }

  /** Looks at its clock now and then, asked or not: else a pause of all gateways would last a minute for it at most. */
  watchClock(): void {
    const { time } = this.#options;
    const entry = { from: 'nobody', sentAt: time.now, name: 'sweep', account: '', about: '' } as const;
    void this.apply({ ...entry, run: (store) => store.sweep(0) });
    time.after(this.actor, LOOKS_EVERY_MS, () => this.watchClock());
  }

  /** So many entries are on a replica and on a disk, and somebody was told. */
  makeSafe(length: number): void {
    this.#safe = Math.max(this.#safe, Math.min(length, this.length));
  }

  /** Goes back to what a replica has that lagged so far behind, or a disk that was synced so long ago. */
  rollBack(lagMs: number): readonly Entry[] {
    const { log } = this.#primary;
    const until = this.#options.time.now - lagMs;
    let { length } = log;
    while (length > this.#safe && (log[length - 1]?.wall ?? 0) > until) length -= 1;
    this.#become(log.slice(0, length));
    return log.slice(length);
  }

  /** A replica that lags takes the place of the primary, which goes on answering some of its clients. */
  takeOver(lagMs: number, clients: ReadonlySet<string>): readonly Entry[] {
    const primary = this.#primary;
    const lost = this.rollBack(lagMs);
    this.#former = { primary, clients };
    return lost;
  }

  /** The former primary answers nobody any more; what it had alone is lost to those who asked it. */
  endTakeover(): readonly Entry[] {
    const former = this.#former;
    if (!former) return [];
    this.#former = undefined;
    const { log } = former.primary;
    const kept = new Set(this.#primary.log);
    return log.filter((entry) => former.clients.has(entry.from) && !kept.has(entry));
  }

  /** It answers, and knows nothing: another one, without files, or the same after a FLUSHALL. */
  forgetAll(identity?: number): readonly Entry[] {
    const { log } = this.#primary;
    this.#kept = log;
    this.#become([], identity);
    return log;
  }

  /** Its operator found the files. */
  restore(): readonly Entry[] {
    const { log } = this.#primary;
    this.#become(this.#kept ?? []);
    this.#kept = undefined;
    return log;
  }

  /** A store that took the same commands at the same times. */
  async twin(): Promise<LedgerStore> {
    const fresh = this.#fresh();
    await this.#replay(this.#primary.log, fresh);
    return fresh;
  }

  #primaryOf(client: string): Primary {
    return this.#former?.clients.has(client) ? this.#former.primary : this.#primary;
  }

  /** Another server, with this. It is there at the end of the event: a MemoryStore waits for nothing. */
  #become(log: Entry[], identity?: number): void {
    const inside = this.#fresh();
    void this.#replay(log, inside);
    this.#epochs += 1;
    this.#primary = { log, inside, epoch: this.#epochs, identity: identity ?? this.#epochs };
  }

  async #replay(log: readonly Entry[], inside: LedgerStore): Promise<void> {
    for (const { at, wall, run } of log) {
      this.#clock.replayed = { at, wall };
      // What was refused then is refused now.
      await run(inside).catch(() => {});
    }
    this.#clock.replayed = undefined;
  }

  #fresh(): LedgerStore {
    const now = (): number => this.now;
    const elapsed = (): number => this.#clock.replayed?.wall ?? this.#options.time.now;
    const store = new MemoryStore({ now, elapsed });
    return this.#options.plant?.(store, now) ?? store;
  }
}

const MAKES_ACCOUNTS: ReadonlySet<Command> = new Set<Command>(['grant', 'createKey']);

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
  'compact',
  'compactUsage',
  'freeze',
  'createKey',
  'updateKey',
  'rotateKey',
  'revokeKey',
]);
