import { accountEndpoints } from './account-endpoints.ts';
import { creditsEndpoints } from './credit-endpoints.ts';
import type { Endpoint } from './endpoint.ts';
import { keyEndpoints } from './key-endpoints.ts';
import { modelEndpoints } from './model-endpoints.ts';
import { operatorEndpoint } from './operator-endpoint.ts';
import { planEndpoints } from './plan-endpoints.ts';
import { requestEndpoints } from './request-endpoints.ts';
import { providerEndpoints } from './provider-endpoints.ts';
import { runtimeStatusEndpoints } from './runtime-status.ts';
import { sessionEndpoints } from './session-endpoints.ts';
import { statusEndpoints } from './status-endpoints.ts';
import { usageEndpoints } from './usage-endpoints.ts';

/** Every operation of the admin API; the page and the OpenAPI document are routed separately. */
export const endpoints: readonly Endpoint[] = [
  operatorEndpoint,
  ...accountEndpoints,
  ...creditsEndpoints,
  ...planEndpoints,
  ...keyEndpoints,
  ...sessionEndpoints,
  ...usageEndpoints,
  ...modelEndpoints,
  ...requestEndpoints,
  ...providerEndpoints,
  ...runtimeStatusEndpoints,
  ...statusEndpoints,
];
