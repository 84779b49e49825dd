import './platform/require-node.ts';

export { type AdminRouter, createAdminRouter } from './admin/admin-router.ts';
export type { AuditEvent } from './json-api/audit-log.ts';
export type { Operator, Permission } from './admin/operator.ts';
export type { AdministeredRouter, AdminRequest, AdminRouterOptions } from './admin/options.ts';
