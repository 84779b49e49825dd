import type { ApiKey, ApiKeyDetails, LoggedRequest, Statement } from '../../client/admin-api.generated.ts';

export interface Me {
  readonly account: string;
  readonly name: string;
  readonly signed_in_by: 'key' | 'host';
  readonly key?: string;
  /** A key with limits of its own sees only itself. */
  readonly scope: 'account' | 'key';
  readonly may: readonly ('read' | 'statements' | 'keys' | 'playground')[];
  /** Base path of the OpenAI-compatible API. */
  readonly api: string;
  /** Usage is counted by end user. */
  readonly end_users: boolean;
}

type Limits = Pick<
  ApiKeyDetails,
  | 'budget_left'
  | 'budget_resets_at'
  | 'budgets'
  | 'requests_left'
  | 'tokens_left'
  | 'spent'
  | 'held'
  | 'running'
>;

export interface Grant {
  readonly amount: string;
  readonly remaining: string;
  readonly expires_at: string | null;
  readonly allowance: string | null;
}

export interface Allowance {
  readonly id: string;
  readonly amount: string;
  readonly granted: string;
  readonly remaining: string;
  readonly per: 'hour' | 'day' | 'week' | 'month';
  readonly resets_at: string;
  readonly until?: string;
}

export interface Credits {
  readonly balance: string;
  readonly held: string;
  readonly spent: string;
  readonly granted: string;
  readonly expired: string;
  readonly credit_limit: string;
  readonly frozen: boolean;
  readonly policy?: Pick<
    ApiKey,
    'budget' | 'models' | 'requests_per_minute' | 'tokens_per_minute' | 'concurrent_requests'
  >;
  readonly limits?: Limits;
  readonly grants: readonly Grant[];
  readonly allowances: readonly Allowance[];
}

export interface OwnKey extends Omit<ApiKey, 'account' | 'markup'> {
  /** Made by the customer, who may change its limits. */
  readonly managed: boolean;
}

export type OwnKeyDetails = OwnKey & Limits;

export interface OwnRequest extends Pick<
  LoggedRequest,
  | 'id'
  | 'created_at'
  | 'key'
  | 'status'
  | 'code'
  | 'model'
  | 'streamed'
  | 'first_byte_ms'
  | 'duration_ms'
  | 'ending'
  | 'finish_reason'
  | 'state'
  | 'charged'
  | 'usage'
  | 'client_request_id'
> {
  readonly user?: string;
}

export type OwnStatement = Statement;

export interface OwnModel {
  readonly id: string;
  readonly name?: string;
  readonly context_length?: number;
  /** USD for one token, as decimal strings. */
  readonly pricing?: { readonly prompt?: string; readonly completion?: string };
}
