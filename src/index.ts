import './platform/require-node.ts';

export {
  ApiKeyConflictError,
  type ApiKeyDetails,
  type ApiKeyInfo,
  type ApiKeys,
  type CreateApiKey,
  type CreatedApiKey,
  type RotateOptions,
} from './keys/api-keys.ts';
export type {
  AccountDetails,
  AccountPolicy,
  AccountPolicyChanges,
  Accounts,
  EndUserCounters,
} from './keys/account-policies.ts';
export type {
  EndUserPolicy,
  KeyPolicy,
  KeyPolicyChanges,
  PolicyBudget,
  PolicyLimits,
} from './keys/key-policy.ts';
export type { BudgetCounters, LimitCounters } from './keys/limit-counters.ts';
export type { CreatedSession, CreateSession, RevokedSession, Sessions } from './keys/sessions.ts';
export type { AuthenticatedKey } from './keys/caller.ts';
export { isApiKey } from './keys/key-secret.ts';
export type { CreditHold, HoldCharge, Holds, HoldUsage, OpenHoldOptions } from './billing/holds.ts';
export { HoldConflictError } from './billing/fixed-hold.ts';
export type { MeteredCall, MeteredCaller, MeteredHandler, MeterOptions } from './endpoints/metered.ts';
export type { NodeHandler } from './adapters/node.ts';
export type { WebHandler } from './adapters/web.ts';
export type { ModelRecord } from './catalog/model-record.ts';
export { modelsDev } from './catalog/models-dev.ts';
export * from './errors/credit-errors.ts';
export * from './errors/hook-errors.ts';
export * from './errors/key-errors.ts';
export * from './errors/model-errors.ts';
export * from './errors/request-errors.ts';
export { type ErrorBody, InternalError, RouterClosingError, RouterError } from './errors/router-error.ts';
export * from './errors/upstream-errors.ts';
export type {
  AttemptEnded,
  AttemptStarted,
  EndpointName,
  HealthChange,
  HookEnded,
  Hooks,
  RecordedContent,
  RequestStarted,
  ResponseEnded,
  RouterGauges,
  Settled,
  TargetStatus,
} from './observability/hooks.ts';
export {
  AccountBusyError,
  type AccountDeletion,
  type AccountInfo,
  type AccountPage,
  type DeletedAccountInfo,
  type ListAccountsOptions,
  type VerifiedAccounts,
  type VerifyAccountsOptions,
} from './ledger/operations/accounts.ts';
export {
  type AccountVerification,
  verifyLedger,
  type VerifyLedgerOptions,
  type Finding,
} from './ledger/operations/verify.ts';
export {
  type AdjustOptions,
  type Credits,
  type CreditLot,
  type CreditsBalance,
  type CreditLimitChange,
  type CreditsChange,
  type ExportJournalOptions,
  type GrantOptions,
  type JournalOptions,
} from './ledger/operations/credits.ts';
export type {
  AllowanceChange,
  AllowanceEnded,
  AllowanceInfo,
  Allowances,
  AllowOptions,
  EndAllowanceOptions,
} from './ledger/operations/allowances.ts';
export { CreditsConflictError } from './ledger/operations/credits-conflict.ts';
export type { CreditsRefund, RefundOptions } from './ledger/operations/refunds.ts';
export {
  type Statement,
  type StatementCharge,
  type StatementEndUser,
  StatementCompactedError,
  statementCsv,
} from './ledger/operations/statement.ts';
export type { BalanceBelow, BudgetAt, LedgerEvent } from './ledger/contract/events.ts';
export type { CreditsEntry } from './ledger/operations/journal-entries.ts';
export type * from './ledger/contract/account-changes.ts';
export type * from './ledger/contract/allowances.ts';
export type * from './ledger/contract/key-records.ts';
export type * from './ledger/contract/ledger-store.ts';
export type { UsageCounts } from './ledger/contract/usage.ts';
export { AccountLostError, StoreUnavailableError } from './ledger/contract/ledger-store.ts';
export { MemoryStore } from './ledger/stores/memory/memory-store.ts';
export {
  type MigrateOptions,
  GatewayAliveError,
  migrate,
  MigrationRefusedError,
  type MigrationReport,
} from './ledger/operations/migrate.ts';
export type {
  UsageGroup,
  UsageQueries,
  UsageQuery,
  UsageSummary,
} from './ledger/operations/usage-queries.ts';
export type { Generation } from './ledger/operations/generation.ts';
export { SqliteStore, type SqliteStoreOptions } from './ledger/stores/sqlite/sqlite-store.ts';
export type { RedisClient } from './ledger/stores/redis/redis-client.ts';
export type { Durability } from './ledger/stores/redis/redis-durability.ts';
export { RedisStore, type RedisStoreOptions } from './ledger/stores/redis/redis-store.ts';
export type { Markup } from './metering/markup.ts';
export type {
  Pricing,
  PricingTier,
  ReportedPricing,
  ServiceTierPricing,
  ServiceTiersPricing,
  TokenPricing,
} from './metering/pricing.ts';
export type { Usage, UsageDialect } from './metering/usage-dialects.ts';
export type { ModelInfo, ReasoningInfo } from './options/model-info.ts';
export type { AnswerOptions } from './options/answer-options.ts';
export type {
  Authenticate,
  AuthenticatedCaller,
  AuthenticateRequest,
} from './options/authenticate-options.ts';
export type { BodyCaller, BodyRules, BodyValue, JsonValue } from './options/body-rules.ts';
export type { LabelRequirements, Labels, LabelValue } from './options/labels.ts';
export type { RoutingStrategy } from './options/strategies.ts';
export type {
  CatalogEntry,
  EnforceOutputLimit,
  ModelCatalog,
  ModelCatalogEntry,
  ModelOptions,
  PriceCatalog,
  PriceQuery,
  PricingOption,
  ServerToolOptions,
  TargetOptions,
} from './options/model-options.ts';
export type {
  ApiKeySource,
  DiscoveryOptions,
  ProviderOptions,
  Providers,
  TimeoutOptions,
} from './options/provider-options.ts';
export type {
  ConnectionOptions,
  OutboundProxyOption,
  Pem,
  TlsOptions,
} from './options/connection-options.ts';
export type { PresetName } from './options/preset-names.ts';
export type {
  ChatCompletionsRouterOptions,
  CorsOptions,
  DimensionOptions,
  EndUserSource,
  HealthCheckOptions,
  RetryOptions,
  TagSource,
  TransportOption,
  StoreURL,
} from './options/router-options.ts';
export type {
  ThresholdOptions,
  ThresholdsOfAccount,
  TopUp,
  TopUpOptions,
} from './options/threshold-options.ts';
export type { SessionOptions } from './options/session-options.ts';
export type { WaitOptions } from './options/wait-options.ts';
export type { UpstreamLimits } from './options/upstream-limits.ts';
export type { ModelStickyOptions, StickyOptions, StickySource } from './options/sticky-options.ts';
export type {
  Guard,
  GuardMessage,
  GuardOptions,
  GuardRefusal,
  GuardReplacement,
  GuardRequest,
  GuardResult,
  HookCaller,
  HookFailurePolicy,
  Route,
  RouteFacts,
  RouteOptions,
} from './options/request-hooks.ts';
export type { ServerConfig, ServerOptions } from './options/server-options.ts';
export {
  type ChatCompletionsRouter,
  createChatCompletionsRouter,
  type MeteredRoute,
  type ReloadOptions,
} from './router/router.ts';
export type { LoggedAttempt, LoggedRequest } from './request-log/logged-request.ts';
export type { RequestLog, RequestLogCounts } from './request-log/request-log.ts';
export type { FoundRequests, RequestSearch, StatusClass } from './request-log/search.ts';
export type { ModelPrices, TargetPrices } from './router/model-prices.ts';
export type { EjectOptions, ProviderStates, ReadmitOptions } from './router/providers.ts';
export type { OutboxStatus, RouterStatus, StoreStatus, WaitingCharge } from './router/status.ts';
export type * from './observability/provider-status.ts';
export type { RunningRequest } from './observability/active-request.ts';
