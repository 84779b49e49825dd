import { type Endpoint as ApiEndpoint, endpointMaker } from '../json-api/endpoint.ts';
import type { Holder } from './holder.ts';
import type { AccountServices } from './options.ts';

export { list, nothing } from '../json-api/endpoint.ts';

/** An operation of the account API. */
export type Endpoint = ApiEndpoint<AccountServices, Holder>;

export const endpoint: ReturnType<typeof endpointMaker<AccountServices, Holder>> = endpointMaker();
