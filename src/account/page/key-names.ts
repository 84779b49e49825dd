import type { CustomerKey } from '../../client/admin-api.generated.ts';
import type { Api } from '../../page/api.ts';

const SESSION = 'ses-';

/** What a key is called where it is one of many; a session of a web page has no name. */
export function keyNameOf(names: ReadonlyMap<string, string>, key: string): string {
  const name = names.get(key) ?? key;
  return name.startsWith(SESSION) ? `Session ${name.slice(SESSION.length, SESSION.length + 8)}` : name;
}

/** IDs of keys → their names, or the IDs of those without one. @throws {ApiError} */
export async function readKeyNames(api: Api): Promise<ReadonlyMap<string, string>> {
  const { data } = await api.list<CustomerKey>('keys');
  return new Map(data.map(({ id, name }) => [id, name || id]));
}
