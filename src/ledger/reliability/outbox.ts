import type { LedgerEvent } from '../contract/events.ts';
import { asError } from '../../platform/as-error.ts';
import type { OutboxFile, OutboxFiles } from './outbox-files.ts';
import { monotonicClock } from '../contract/store-clock.ts';
import { doneLine, type Intent, intentLine, type Kept, plain, readLines } from './outbox-lines.ts';

export interface OutboxOptions {
  readonly files: OutboxFiles;
  readonly now: () => number;
  readonly tell: (event: LedgerEvent) => void;
}

/** A power cut takes what was written within this time; a process that dies takes nothing. */
const SYNC_MS = 50;
/** How often a process touches its file, and after how long untouched a file counts as orphaned. */
const HEARTBEAT_MS = 2000;
const ABANDONED_MS = 10_000;
const RETRY_MS = 1000;
/** From the first size on, a file without open intents is emptied; from the second, any file that has doubled is compacted. */
const WORTH_EMPTYING = 256 * 1024;
const MAX_FILE_BYTES = 16 * 1024 * 1024;

/**
 * What is to be posted, on disk: a file of this process, appended to before anything is sent.
 *
 * A file that can't be written or synced is given up, and everything that waits is
 * written to a new one, until that succeeds. Files whose owner died are taken over:
 * by a rename, so that one of many does; should the owner live, what both deliver is
 * posted once. Nothing here throws: an outbox that fails says so by `failure`.
 */
export class Outbox<Item extends Kept = Intent> {
  readonly #options: OutboxOptions;
  /** What waits, as it was written, by request id. */
  readonly #waiting = new Map<string, Buffer>();
  readonly #unreadable = new Set<string>();
  /** When the files of other processes changed last, by our clock. */
  readonly #lives = new Map<string, { readonly modifiedAt: number; readonly since: number }>();
  readonly #steadyNow: () => number;
  readonly #done = new Set<string>();
  #file: OutboxFile | undefined;
  #size = 0;
  /** Of what waited when it was begun. */
  #firstSize = 0;
  /** It was synced once, with everything that waited. */
  #trusted = false;
  /** Everything in these is in a later file, too: removed once that is synced. */
  #replaced: string[] = [];
  #failure: Error | undefined;
  #dirty = false;
  #syncing: Promise<void> | undefined;
  #syncTimer: NodeJS.Timeout | undefined;
  /** Set while the file is given up. */
  #retryTimer: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #beatAt = 0;
  #closed = false;

  constructor(options: OutboxOptions) {
    this.#options = options;
    this.#steadyNow = monotonicClock(options.now);
  }

  /** Why nothing can be written at the moment; undefined while it can. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** @param onLeftover - called with every intent of a process that is gone, now and later */
  open(onLeftover: (intent: Item) => void): void {
    this.#renew();
    this.#takeOver(onLeftover);
    this.#heartbeat = setInterval(() => {
      this.#beat();
      this.#takeOver(onLeftover);
    }, HEARTBEAT_MS).unref();
  }

  append(intent: Item): void {
    if (this.#closed) return;
    const bytes = intentLine(intent);
    const { requestId } = intent.command;
    this.#waiting.set(requestId, bytes);
    // One that was done, and waits again.
    this.#done.delete(requestId);
    // A process that stood still may have been taken for dead: then no process reads what it appends.
    if (Math.abs(this.#options.now() - this.#beatAt) > ABANDONED_MS / 2) this.#beat();
    this.#write(bytes);
    this.#syncSoon();
  }

  /** This request needs nothing any more. */
  done(requestId: string): void {
    if (!this.#waiting.delete(requestId)) return;
    this.#done.add(requestId);
    this.#syncSoon();
  }

  /** Moves an intent to the dead letters: an operator finds it there, and no process delivers it. */
  giveUp(intent: Item, reason: string): void {
    const { files, now, tell } = this.#options;
    const { account, requestId } = intent.command;
    const letter = { at: new Date(now()).toISOString(), reason, type: intent.type, command: plain(intent) };
    try {
      const file = files.addDeadLetter(JSON.stringify(letter));
      tell({ type: 'dead_letter', account, requestId, file });
      this.done(requestId);
    } catch (error) {
      // It stays in the outbox, where the next start finds it.
      this.#fail(error);
    }
  }

  /** Waiting intents stay on disk, for the next process that opens this folder. */
  async close(): Promise<void> {
    const { files } = this.#options;
    if (this.#retryTimer) this.#renew();
    this.#closed = true;
    for (const timer of [this.#syncTimer, this.#retryTimer, this.#heartbeat]) clearTimeout(timer);
    await this.#syncing;
    const file = this.#file;
    if (!file) return;
    try {
      if (this.#waiting.size > 0) {
        this.#writeDone();
        await file.sync();
        // The file is orphaned from now on.
        files.touch(file.name, 0);
      } else {
        files.remove(file.name);
      }
      this.#remove(this.#replaced);
      file.close();
    } catch (error) {
      this.#failure = asError(error);
    }
  }

  /** Begins a new file with everything that waits. */
  #renew(): void {
    const { files, now } = this.#options;
    const old = this.#file;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    let file: OutboxFile | undefined;
    try {
      file = files.create();
      const bytes = Buffer.concat([...this.#waiting.values()]);
      if (bytes.length > 0) file.write(bytes);
      this.#file = file;
      this.#size = bytes.length;
      this.#firstSize = bytes.length;
    } catch (error) {
      const failed = file;
      if (failed) quietly(() => failed.close());
      if (failed) quietly(() => files.remove(failed.name));
      this.#fail(error);
      return;
    }
    this.#done.clear();
    this.#beatAt = now();
    if (old) {
      quietly(() => old.close());
      if (this.#trusted || !this.#failure) this.#replaced.push(old.name);
      else quietly(() => files.remove(old.name));
    }
    this.#trusted = false;
    this.#syncSoon();
  }

  #write(bytes: Buffer): void {
    if (!this.#file || this.#retryTimer) return;
    try {
      this.#file.write(bytes);
      this.#size += bytes.length;
      // A new file has all that waits: where that is much, it is worth it only once as much was written again.
      if (this.#size > Math.max(MAX_FILE_BYTES, 2 * this.#firstSize)) this.#renew();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Gives up the file, and tries a new one in a moment. */
  #fail(error: unknown): void {
    if (!this.#failure) this.#options.tell({ type: 'outbox_failed', message: asError(error).message });
    this.#failure = asError(error);
    if (this.#closed) return;
    this.#retryTimer ??= setTimeout(() => {
      this.#renew();
    }, RETRY_MS).unref();
  }

  #syncSoon(): void {
    this.#dirty = true;
    if (this.#syncTimer || this.#syncing || this.#closed) return;
    this.#syncTimer = setTimeout(() => {
      this.#syncTimer = undefined;
      this.#syncing = this.#sync().finally(() => {
        this.#syncing = undefined;
        if (this.#dirty) this.#syncSoon();
      });
    }, SYNC_MS).unref();
  }

  async #sync(): Promise<void> {
    this.#dirty = false;
    this.#writeDone();
    const file = this.#file;
    if (!file || this.#retryTimer) return;
    // What is taken over from now on is written after the fsync has begun.
    const replaced = [...this.#replaced];
    try {
      // What has been answered meanwhile needs no disk.
      if (this.#waiting.size > 0 || this.#failure) await file.sync();
      if (file === this.#file && !this.#retryTimer) this.#synced(replaced);
    } catch (error) {
      // After a failed fsync the next may succeed without having written anything: this file is not believed again.
      if (file === this.#file) this.#fail(error);
    }
  }

  #synced(replaced: readonly string[]): void {
    this.#trusted = true;
    this.#remove(replaced);
    if (!this.#failure) return;
    this.#failure = undefined;
    this.#options.tell({ type: 'outbox_recovered' });
  }

  #remove(replaced: readonly string[]): void {
    this.#replaced = this.#replaced.filter((name) => !replaced.includes(name));
    for (const name of replaced) quietly(() => this.#options.files.remove(name));
  }

  #writeDone(): void {
    if (this.#done.size === 0 || !this.#file || this.#retryTimer) return;
    try {
      if (this.#waiting.size === 0 && this.#size > WORTH_EMPTYING) {
        this.#file.truncate();
        this.#size = 0;
        this.#firstSize = 0;
      } else {
        this.#write(doneLine([...this.#done]));
      }
      this.#done.clear();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** A sign of life; should another have taken the file, there is a new one. */
  #beat(): void {
    const { files, now } = this.#options;
    this.#beatAt = now();
    if (!this.#file || this.#retryTimer) return;
    try {
      for (const name of this.#replaced) files.touch(name, now());
      if (!files.touch(this.#file.name, now())) this.#renew();
    } catch (error) {
      this.#fail(error);
    }
  }

  #takeOver(onLeftover: (intent: Item) => void): void {
    const { files } = this.#options;
    if (!this.#file || this.#retryTimer) return;
    try {
      for (const { name, modifiedAt } of files.list()) {
        const ours = name === this.#file?.name || this.#replaced.includes(name);
        if (ours || this.#unreadable.has(name) || !this.#isAbandoned(name, modifiedAt)) continue;
        this.#lives.delete(name);
        for (const intent of this.#claim(name)) onLeftover(intent);
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Whether a file was left at its close, or has not changed for too long by our clock: its owner's may differ. */
  #isAbandoned(name: string, modifiedAt: number): boolean {
    if (modifiedAt === 0) return true;
    const now = this.#steadyNow();
    const life = this.#lives.get(name);
    if (life?.modifiedAt === modifiedAt) return now - life.since >= ABANDONED_MS;
    this.#lives.set(name, { modifiedAt, since: now });
    return false;
  }

  /** Moves the intents of an orphaned file to ours. */
  #claim(name: string): readonly Item[] {
    const { files, now, tell } = this.#options;
    let claimed: string | undefined;
    try {
      // Touched first: once renamed, it must not look orphaned to the next process.
      files.touch(name, now());
      claimed = files.claim(name);
      if (claimed === undefined) return [];
      const { intents, damaged } = readLines<Item>(files.read(claimed));
      for (const intent of intents) this.append(intent);
      if (damaged > 0) tell({ type: 'outbox_damaged', file: files.setAside(claimed), lines: damaged });
      else this.#replaced.push(claimed);
      this.#syncSoon();
      return intents;
    } catch (error) {
      // Another process's file failed: ours can still be written.
      this.#unreadable.add(claimed ?? name);
      tell({ type: 'outbox_failed', message: `${claimed ?? name}: ${asError(error).message}` });
      return [];
    }
  }
}

function quietly(work: () => void): void {
  try {
    work();
  } catch {
    // It was to be thrown away.
  }
}
