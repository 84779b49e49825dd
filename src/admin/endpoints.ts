import { accountEndpoints } from './accounts.ts';
import { creditsEndpoints } from './credits.ts';
import type { Endpoint } from './endpoint.ts';
import { keyEndpoints } from './keys.ts';
import { runtimeStatusEndpoints } from './runtime-status.ts';
import { usageEndpoints } from './usage.ts';

/** Every operation of the admin API; the page and the OpenAPI document are routed separately. */
export const endpoints: readonly Endpoint[] = [
  ...accountEndpoints,
  ...creditsEndpoints,
  ...keyEndpoints,
  ...usageEndpoints,
  ...runtimeStatusEndpoints,
];
