import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, linkSync, rmSync, writeFileSync } from 'node:fs';

/**
 * Creates an empty file that other users of the machine can't read, if there is none. SQLite would create a readable one.
 * Its companion files (`-wal`, `-shm`) inherit the mode.
 *
 * It is created under another name and linked, because closing the file itself would release the locks that other threads
 * of this process have on it. On failure SQLite creates the file, or reports the error.
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
    // Another process was first, or the directory isn't writable.
  }
}
