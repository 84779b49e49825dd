import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, linkSync, rmSync, writeFileSync } from 'node:fs';

/**
 * Makes an empty file that other users of the machine can't read, where there is none: SQLite's own would be readable for
 * all. What SQLite puts beside it (`-wal`, `-shm`) has its mode.
 *
 * It is made under another name: to close the file itself would end the locks that other threads of this process have on
 * it. Where that can't be done, it is left to SQLite, which says what is wrong.
 */
export function createPrivateFile(path: string, mode = 0o600): void {
  if (existsSync(path)) return;
  const made = `${path}-${randomUUID()}`;
  try {
    writeFileSync(made, '', { flag: 'wx', mode: 0o600 });
    try {
      chmodSync(made, mode);
      linkSync(made, path);
    } finally {
      rmSync(made, { force: true });
    }
  } catch {
    // Another process was first, or nothing can be made here.
  }
}
