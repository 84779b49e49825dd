import type { OutboxFile, OutboxFiles } from '../../src/ledger/reliability/outbox-files.ts';
import type { Random } from './random.ts';

interface Content {
  readonly bytes: Buffer[];
  size: number;
  /** Number of bytes that survive a power failure; whether the file's name does. */
  synced: number;
  isSynced: boolean;
  modifiedAt: number;
}

/** One machine's directory of outboxes: a crash of a process keeps all writes, a power failure only the synced ones. */
export class Disk {
  readonly #random: Random;
  readonly #now: () => number;
  readonly #sleep: (ms: number) => Promise<void>;
  readonly #files = new Map<string, Content>();
  readonly deadLetters: string[] = [];
  /** While set, every write and sync fails. */
  failing = false;
  #names = 0;

  constructor(options: {
    readonly random: Random;
    readonly now: () => number;
    readonly sleep: (ms: number) => Promise<void>;
  }) {
    this.#random = options.random;
    this.#now = options.now;
    this.#sleep = options.sleep;
  }

  /** Discards unsynced data: a whole file, or everything from some byte on. */
  losePower(): void {
    for (const [name, content] of this.#files) {
      if (!content.isSynced && this.#random.chance(0.5)) {
        this.#files.delete(name);
        continue;
      }
      const keep = this.#random.between(content.synced, content.size);
      const bytes = Buffer.concat(content.bytes).subarray(0, keep);
      content.bytes.splice(0, Infinity, Buffer.from(bytes));
      content.size = keep;
    }
  }

  get files(): OutboxFiles {
    return {
      create: () => this.#create(),
      list: () => Array.from(this.#files, ([name, { modifiedAt }]) => ({ name, modifiedAt })),
      claim: (name) => {
        const content = this.#files.get(name);
        if (!content) return undefined;
        this.#files.delete(name);
        const claimed = this.#newName();
        this.#files.set(claimed, content);
        return claimed;
      },
      touch: (name, time) => {
        const content = this.#files.get(name);
        if (content) content.modifiedAt = time;
        return content !== undefined;
      },
      read: (name) => Buffer.concat(this.#files.get(name)?.bytes ?? []),
      remove: (name) => {
        this.#files.delete(name);
      },
      setAside: (name) => {
        this.#files.delete(name);
        return `${name}.damaged`;
      },
      addDeadLetter: (line) => {
        this.#check();
        this.deadLetters.push(line);
        return 'dead-letters.jsonl';
      },
    };
  }

  #create(): OutboxFile {
    this.#check();
    const name = this.#newName();
    const content: Content = { bytes: [], size: 0, synced: 0, isSynced: false, modifiedAt: this.#now() };
    this.#files.set(name, content);
    return {
      name,
      write: (bytes) => {
        this.#check();
        content.bytes.push(bytes);
        content.size += bytes.length;
        content.modifiedAt = this.#now();
      },
      sync: async () => {
        const { size } = content;
        await this.#sleep(this.#random.skewed(1, 40));
        this.#check();
        content.synced = Math.max(content.synced, Math.min(size, content.size));
        content.isSynced = true;
      },
      truncate: () => {
        this.#check();
        content.bytes.length = 0;
        content.size = 0;
        content.synced = 0;
      },
      close: () => {},
    };
  }

  #newName(): string {
    return `${(this.#names += 1)}.outbox`;
  }

  #check(): void {
    if (this.failing) throw new Error('ENOSPC: no space left on device, write');
  }
}
