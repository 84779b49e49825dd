import { SENTINEL } from './lua/account-lua.ts';
import { ReplyReader } from './lua/define-script.ts';
import type { ScriptRunner } from './script-runner.ts';

const PAGE = '500';

/**
 * The fields of a hash and their values, except the sentinel, read page by page, so that a large one doesn't block Redis. A
 * field may come twice.
 *
 * @param pattern - of the fields, as of MATCH
 */
export async function* scanHash(
  runner: Pick<ScriptRunner, 'send'>,
  key: string,
  pattern: string = '*',
): AsyncGenerator<[field: string, value: string]> {
  let cursor = '0';
  do {
    const from = cursor;
    const reply = new ReplyReader(await runner.send('hscan', [key, from, 'MATCH', pattern, 'COUNT', PAGE]));
    cursor = reply.text();
    for (const row of reply.nested().pairs()) if (row[0] !== SENTINEL) yield row;
  } while (cursor !== '0');
}
