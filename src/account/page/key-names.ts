import type { CustomerKey } from '../../client/admin-api.generated.ts';
import type { Api } from '../../page/api.ts';

/** IDs of keys → their names, or the IDs of those without one. @throws {ApiError} */
export async function readKeyNames(api: Api): Promise<ReadonlyMap<string, string>> {
  const { data } = await api.list<CustomerKey>('keys');
  return new Map(data.map(({ id, name }) => [id, name || id]));
}
