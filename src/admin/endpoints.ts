import { accountEndpoints } from './accounts.ts';
import { creditsEndpoints } from './credits.ts';
import type { Endpoint } from './endpoint.ts';
import { keyEndpoints } from './keys.ts';
import { runtimeStatusEndpoints } from './runtime-status.ts';
import { usageEndpoints } from './usage.ts';

/** Every operation on accounts and on what runs; the page and the description of them all are beside. */
export const endpoints: readonly Endpoint[] = [
  ...accountEndpoints,
  ...creditsEndpoints,
  ...keyEndpoints,
  ...usageEndpoints,
  ...runtimeStatusEndpoints,
];
