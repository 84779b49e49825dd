import { createHash, randomUUID } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { hostName } from '../../platform/host-name.ts';

/** The folder that outboxes are in, with no more of a file system than they use. Everything but `sync` is done when it returns. */
export interface OutboxFiles {
  /** A new file of a name of its own, to append to; makes the folder where it is missing. */
  create(): OutboxFile;
  /** Outboxes that are there, with the time that they were last written or touched, in ms: 0 where their process is gone. */
  list(): readonly { readonly name: string; readonly modifiedAt: number }[];
  /** Gives a file a new name, which is returned; undefined when someone else was first. */
  claim(name: string): string | undefined;
  /** Says whether it is still there. */
  touch(name: string, time: number): boolean;
  read(name: string): Buffer;
  remove(name: string): void;
  /** Keeps a file for an operator, where it is no outbox any more; returns its path. */
  setAside(name: string): string;
  /** Adds a line to the dead letters; returns their path. */
  addDeadLetter(line: string): string;
}

export interface OutboxFile {
  readonly name: string;
  write(bytes: Buffer): void;
  /** Resolves once all that was written before survives a power cut. */
  sync(): Promise<void>;
  truncate(): void;
  close(): void;
}

const SUFFIX = '.outbox';

/** Outboxes in a folder of this machine. */
export class OutboxFolder implements OutboxFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  create(): OutboxFile {
    fs.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const name = newName();
    const descriptor = fs.openSync(this.#path(name), 'ax', 0o600);
    return {
      name,
      write: (bytes) => {
        for (let written = 0; written < bytes.length;) written += fs.writeSync(descriptor, bytes, written);
      },
      sync: () => fdatasync(descriptor),
      truncate: () => fs.ftruncateSync(descriptor, 0),
      close: () => fs.closeSync(descriptor),
    };
  }

  list(): readonly { readonly name: string; readonly modifiedAt: number }[] {
    return fs.readdirSync(this.#folder).flatMap((name) => {
      if (!name.endsWith(SUFFIX)) return [];
      const modifiedAt = fs.statSync(this.#path(name), { throwIfNoEntry: false })?.mtimeMs;
      return modifiedAt === undefined ? [] : [{ name, modifiedAt: isOrphaned(name) ? 0 : modifiedAt }];
    });
  }

  claim(name: string): string | undefined {
    const claimed = newName();
    const done = unlessMissing(() => fs.renameSync(this.#path(name), this.#path(claimed)));
    return done ? claimed : undefined;
  }

  touch(name: string, time: number): boolean {
    return unlessMissing(() => fs.utimesSync(this.#path(name), time / 1000, time / 1000));
  }

  read(name: string): Buffer {
    return fs.readFileSync(this.#path(name));
  }

  remove(name: string): void {
    fs.rmSync(this.#path(name), { force: true });
  }

  setAside(name: string): string {
    const path = this.#path(`${name}.damaged`);
    fs.renameSync(this.#path(name), path);
    return path;
  }

  addDeadLetter(line: string): string {
    const path = this.#path('dead-letters.jsonl');
    fs.appendFileSync(path, `${line}\n`, { mode: 0o600, flush: true });
    return path;
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }
}

const fdatasync = promisify(fs.fdatasync);

/** This process, by its machine, its id and when it began: after a restart in a container another one may have its id. */
const HOST = createHash('sha256').update(machine()).digest('hex').slice(0, 8);
const BEGAN_AT = Math.round(Date.now() - process.uptime() * 1000);
/** How far apart the same beginning may seem: the clock may have been set since. */
const SAME_PROCESS_MS = 60_000;

/** The machine, and where on it process ids are counted by themselves, as in a container. What may not be asked is left out. */
function machine(): string {
  let namespace = '';
  try {
    namespace = fs.readlinkSync('/proc/self/ns/pid');
  } catch {
    // No such place, or Deno has no permission for it.
  }
  return `${hostName() ?? ''} ${namespace}`;
}

function newName(): string {
  return `${HOST}-${process.pid}-${BEGAN_AT}-${randomUUID()}${SUFFIX}`;
}

/** Whether the process that made it is known to have ended: what it left need not wait until its signs of life are missed. */
function isOrphaned(name: string): boolean {
  const [, host, pid, beganAt] = /^([0-9a-f]{8})-(\d+)-(\d+)-/.exec(name) ?? [];
  if (host !== HOST) return false;
  if (Number(pid) === process.pid) return Math.abs(Number(beganAt) - BEGAN_AT) > SAME_PROCESS_MS;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}

/** Whether it could be done: not if the file isn't there. */
function unlessMissing(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}
