import { SESSION_PREFIX } from '../../contract/reserved-ids.ts';
import { RETENTION_MS } from '../../engine/retention.ts';
import { dropPointer } from './lua/key-pointers.ts';
import { pastSessions, pruneEndUsers } from './lua/prune.ts';
import { scanHash } from './scan-hash.ts';
import type { ScriptRunner } from './script-runner.ts';

/** Rows that one script looks at, to bound how long it blocks Redis. */
const AT_ONCE = 100;
/** Field of a key's version and expiry. */
const MARK = ':v';

/** Removes the rows of an account that nothing needs any more; returns how many. */
export async function prune(runner: ScriptRunner, account: string): Promise<number> {
  const { keys, clock } = runner;
  const endUsers = await fieldsOf(runner, keys.endUsers(account), '*');
  const marks = await fieldsOf(runner, keys.apiKeys(account), `${SESSION_PREFIX}*${MARK}`);
  let pruned = 0;
  for (const ids of inBatches(endUsers)) {
    pruned += await runner.run(pruneEndUsers, keys.ofAccount(account), [clock(), ...ids]);
  }
  for (const some of inBatches(marks)) {
    const ids = some.map((mark) => mark.slice(0, -MARK.length));
    pruned += await pruneSessions(runner, account, ids);
  }
  return pruned;
}

/** What leads to them first: once they are deleted, it can't be found. */
async function pruneSessions(runner: ScriptRunner, account: string, ids: readonly string[]): Promise<number> {
  const keys = runner.keys.ofAccount(account);
  const terms = [runner.clock(), String(RETENTION_MS)] as const;
  const past = await runner.run(pastSessions, keys, [...terms, '0', ...ids]);
  if (past.length === 0) return 0;
  const pointers = past.flatMap(({ id, hashes }) => hashes.map((hash) => ({ id, hash })));
  await Promise.all(
    pointers.map(({ id, hash }) =>
      runner.run(dropPointer, [runner.keys.pointer(hash)], [`${account} ${id}`]),
    ),
  );
  const deleted = await runner.run(pastSessions, keys, [...terms, '1', ...past.map(({ id }) => id)]);
  return deleted.length;
}

async function fieldsOf(runner: ScriptRunner, key: string, pattern: string): Promise<string[]> {
  const fields = new Set<string>();
  for await (const [field] of scanHash(runner, key, pattern)) fields.add(field);
  return [...fields];
}

function* inBatches(ids: readonly string[]): Generator<readonly string[]> {
  for (let from = 0; from < ids.length; from += AT_ONCE) yield ids.slice(from, from + AT_ONCE);
}
