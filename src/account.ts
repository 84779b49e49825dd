import './platform/require-node.ts';

export { type AccountRouter, createAccountRouter } from './account/account-router.ts';
export type { AccountHolder, HolderPermission } from './account/holder.ts';
export type { AccountRouterOptions, HeldRouter, PlaygroundOptions } from './account/options.ts';
export type { Theme, ThemeVariable } from './account/theme.ts';
export type { AuditEvent } from './json-api/audit-log.ts';
export type { ApiRequest } from './json-api/host-view.ts';
