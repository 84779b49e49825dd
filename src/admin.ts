export { type AdminRouter, createAdminRouter } from './admin/admin-router.ts';
export type { AuditEvent } from './admin/audit.ts';
export type { AdministeredRouter } from './admin/endpoint.ts';
export type { AdminRequest, AdminRouterOptions } from './admin/options.ts';
