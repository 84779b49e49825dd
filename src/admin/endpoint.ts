import { type Endpoint as ApiEndpoint, endpointMaker } from '../json-api/endpoint.ts';
import type { Operator } from './operator.ts';
import type { AdministeredRouter } from './options.ts';

export { assertMay, list, nothing, type OperationResult } from '../json-api/endpoint.ts';

/** An operation of the admin API. */
export type Endpoint = ApiEndpoint<AdministeredRouter, Operator>;

export const endpoint: ReturnType<typeof endpointMaker<AdministeredRouter, Operator>> = endpointMaker();
