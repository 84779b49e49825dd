import { creditsEndpoint } from './credits-endpoint.ts';
import type { Endpoint } from './endpoint.ts';
import { holderEndpoint } from './holder-endpoint.ts';
import { keyEndpoints } from './key-endpoints.ts';
import { modelEndpoint } from './model-endpoint.ts';
import { playgroundEndpoint } from './playground-endpoint.ts';
import { requestEndpoints } from './request-endpoints.ts';
import { statementEndpoint } from './statement-endpoint.ts';
import { usageEndpoint } from './usage-endpoint.ts';

/** Every operation of the account API; the page and the OpenAPI document are routed separately. */
export const endpoints: readonly Endpoint[] = [
  holderEndpoint,
  creditsEndpoint,
  modelEndpoint,
  usageEndpoint,
  ...keyEndpoints,
  ...requestEndpoints,
  statementEndpoint,
  playgroundEndpoint,
];
