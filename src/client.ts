export { AdminApiError } from './client/admin-api-error.ts';
export { type AdminClientOptions, createAdminClient } from './client/admin-client.ts';
export type { CallOptions, ChangeOptions } from './client/call-options.ts';
export type * from './client/admin-api.generated.ts';
