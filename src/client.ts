export { AdminApiError } from './client/admin-api-error.ts';
export {
  type AccountClientOptions,
  type AdminClientOptions,
  createAccountClient,
  createAdminClient,
} from './client/admin-client.ts';
export type { CallOptions, ChangeOptions } from './client/call-options.ts';
export type * from './client/admin-api.generated.ts';
