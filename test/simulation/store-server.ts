import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../src/ledger/stores/memory/memory-store.ts';
import { Actor, type VirtualTime } from './virtual-time.ts';

/** A command in flight. */
export interface Sent {
  readonly sentAt: number;
  readonly name: Command;
  /** The id of its request, grant or adjustment, or the key or account that it is about. */
  readonly about: string;
  readonly account: string;
  readonly run: (store: LedgerStore) => Promise<unknown>;
}

/** A command as received by the server. */
export interface Entry extends Sent {
  /** Who sent it. */
  readonly from: string;
  /** Arrival, in true time and by the server's clock. */
  readonly wall: number;
  readonly at: number;
}

export type Command = Exclude<keyof LedgerStore, 'mayRollBack' | 'losses' | 'ready' | 'accounts' | 'close'>;

export interface StoreServerOptions {
  readonly time: VirtualTime;
  /** Replaces the state machine, to plant a bug. */
  readonly plant?: ((store: LedgerStore, now: () => number) => LedgerStore) | undefined;
  /** Called with every command that was applied, and its result. */
  readonly onApplied: (entry: Entry, result: unknown) => void;
  /** Called with every command that created its account. */
  readonly onMade: (entry: Entry) => void;
}

const LOOKS_EVERY_MS = 30_000;

/** A server, with its log of commands. */
interface Primary {
  readonly log: Entry[];
  readonly inside: LedgerStore;
  /** Number of earlier primaries. */
  readonly epoch: number;
  /** Reported identity of its process and history. */
  readonly identity: number;
}

/**
 * The server of the store, with its replicas: a MemoryStore and the log of its commands.
 *
 * A failover creates a new MemoryStore and replays the beginning of that log, at the same times.
 */
export class StoreServer {
  readonly actor = new Actor('store');
  readonly #options: StoreServerOptions;
  /** When the command being replayed was applied, by the store's clock and in true time. */
  readonly #clock: { replayed: { readonly at: number; readonly wall: number } | undefined } = {
    replayed: undefined,
  };
  #primary: Primary;
  /** The former primary, while it doesn't know yet that it was demoted, and the gateways that still use it. */
  #former: { readonly primary: Primary; readonly clients: ReadonlySet<string> } | undefined;
  /** Number of entries that no failover can lose. */
  #safe = 0;
  isUp = true;
  /** Its log before it lost all data; undefined while it has them. */
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

  /** The current store, for checks that change nothing. */
  get inside(): LedgerStore {
    return this.#primary.inside;
  }

  get isEmpty(): boolean {
    return this.#kept !== undefined;
  }

  get length(): number {
    return this.#primary.log.length;
  }

  /** The store that a client reaches. */
  insideFor(client: string): LedgerStore {
    return this.#primaryOf(client).inside;
  }

  /** Incremented, for a client, each time another server takes over. */
  epochFor(client: string): number {
    return this.#primaryOf(client).epoch;
  }

  /** Changes with each other server that a client reaches, but not when a server loses its data. */
  identityFor(client: string): number {
    return this.#primaryOf(client).identity;
  }

  /** Whether a client still uses a demoted primary. */
  isFormerFor(client: string): boolean {
    return this.#former?.clients.has(client) === true;
  }

  /** Whether the server applied this command and no failover lost it. */
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

  /** Reads its clock periodically, also without commands: else a pause of all gateways would count as a minute at most. */
  watchClock(): void {
    const { time } = this.#options;
    const entry = { from: 'nobody', sentAt: time.now, name: 'sweep', account: '', about: '' } as const;
    void this.apply({ ...entry, run: (store) => store.sweep(0) });
    time.after(this.actor, LOOKS_EVERY_MS, () => this.watchClock());
  }

  /** This many entries are on a replica and on a disk, and were acknowledged as such. */
  makeSafe(length: number): void {
    this.#safe = Math.max(this.#safe, Math.min(length, this.length));
  }

  /** Rolls back to the state of a lagging replica, or of the last disk sync. */
  rollBack(lagMs: number): readonly Entry[] {
    const { log } = this.#primary;
    const until = this.#options.time.now - lagMs;
    let { length } = log;
    while (length > this.#safe && (log[length - 1]?.wall ?? 0) > until) length -= 1;
    this.#become(log.slice(0, length));
    return log.slice(length);
  }

  /** A lagging replica takes over, while the former primary still answers some clients. */
  takeOver(lagMs: number, clients: ReadonlySet<string>): readonly Entry[] {
    const primary = this.#primary;
    const lost = this.rollBack(lagMs);
    this.#former = { primary, clients };
    return lost;
  }

  /** The former primary stops answering; writes that only it had are lost. */
  endTakeover(): readonly Entry[] {
    const former = this.#former;
    if (!former) return [];
    this.#former = undefined;
    const { log } = former.primary;
    const kept = new Set(this.#primary.log);
    return log.filter((entry) => former.clients.has(entry.from) && !kept.has(entry));
  }

  /** It answers without any data: a new server without files, or the same one after a FLUSHALL. */
  forgetAll(identity?: number): readonly Entry[] {
    const { log } = this.#primary;
    this.#kept = log;
    this.#become([], identity);
    return log;
  }

  /** The operator restored the files. */
  restore(): readonly Entry[] {
    const { log } = this.#primary;
    this.#become(this.#kept ?? []);
    this.#kept = undefined;
    return log;
  }

  /** A store that applied the same commands at the same times. */
  async twin(): Promise<LedgerStore> {
    const fresh = this.#fresh();
    await this.#replay(this.#primary.log, fresh);
    return fresh;
  }

  #primaryOf(client: string): Primary {
    return this.#former?.clients.has(client) ? this.#former.primary : this.#primary;
  }

  /** Another server with this log. It is ready at the end of the event, because a MemoryStore waits for nothing. */
  #become(log: Entry[], identity?: number): void {
    const inside = this.#fresh();
    void this.#replay(log, inside);
    this.#epochs += 1;
    this.#primary = { log, inside, epoch: this.#epochs, identity: identity ?? this.#epochs };
  }

  async #replay(log: readonly Entry[], inside: LedgerStore): Promise<void> {
    for (const { at, wall, run } of log) {
      this.#clock.replayed = { at, wall };
      // Refused commands are refused again.
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

const MAKES_ACCOUNTS: ReadonlySet<Command> = new Set<Command>(['grant', 'createKey', 'allow']);

const CHANGES: ReadonlySet<Command> = new Set<Command>([
  'admit',
  'extend',
  'settle',
  'void',
  'grant',
  'adjust',
  'refund',
  'setFloor',
  'allow',
  'endAllowance',
  'deleteAccount',
  'sweep',
  // Not a pure read: it expires due credits.
  'balance',
  'compact',
  'compactUsage',
  'prune',
  'freeze',
  'createKey',
  'updateKey',
  'rotateKey',
  'revokeKey',
]);
