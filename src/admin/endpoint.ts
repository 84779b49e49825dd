import type * as v from 'valibot';

import { object, type Schema } from './schema.ts';
import type { Operator, Permission } from './operator.ts';
import type { AdministeredRouter } from './options.ts';
import { validate } from './validation.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** One operation of the admin API. Its schemas validate requests and make the OpenAPI document. */
export interface Endpoint extends Omit<EndpointDefinition, 'run'> {
  /**
   * Validates a request.
   *
   * @throws {RouterError} a 400 that names the invalid parameter
   */
  prepare(sent: RawInput): PreparedCall;
}

/** The parts of a request, not validated yet. */
export interface RawInput {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** Parsed JSON; undefined if the request has no body. */
  readonly body: unknown;
  readonly idempotencyKey: string | undefined;
}

/** A validated request. */
export interface PreparedCall {
  /** For the audit event. */
  readonly body: unknown;
  run(router: AdministeredRouter, operator: Operator): Promise<OperationResult>;
}

/** An operation as its file defines it. */
export interface EndpointDefinition<
  Params extends Schema<object> = Schema<object>,
  Query extends Schema<object> = Schema<object>,
  Body extends Schema = Schema,
  Answer extends Schema = Schema,
> {
  /** The `operationId` of the OpenAPI document, e.g. `createGrant`. */
  readonly operation: string;
  readonly method: Method;
  /** Below the mount, e.g. `/accounts/{account}`. */
  readonly path: string;
  readonly summary: string;
  readonly params: Params;
  readonly query: Query;
  /** A component of the OpenAPI document, or `nothing`. */
  readonly body: Body;
  /** If true, a missing body is an empty object. */
  readonly bodyIsOptional?: boolean;
  /** A component of the OpenAPI document. */
  readonly answer: Answer;
  /** The operation can also answer with CSV. */
  readonly hasCsv?: boolean;
  /** Status if this request made the change; a repeated one gets 200. @default 200 */
  readonly status?: number;
  /** Its error statuses, besides those of every operation. */
  readonly errorStatuses?: readonly number[];
  /** Every operator may do it. @default the permission of the change, or `read` */
  readonly isForAll?: boolean;
  /** Only for operations that change something. */
  readonly change?: ChangeNotes;
  readonly run: (
    input: {
      readonly params: v.InferOutput<Params>;
      readonly query: v.InferOutput<Query>;
      readonly body: v.InferOutput<Body>;
      readonly idempotencyKey: string | undefined;
      readonly operator: Operator;
    },
    router: AdministeredRouter,
  ) => Promise<OperationResult<v.InferOutput<Answer>>>;
}

export interface ChangeNotes {
  /** Its `action` in audit events, e.g. `grants.create`. */
  readonly action: string;
  readonly needs: Permission;
  /** For the OpenAPI document: the response to the same request with the same `Idempotency-Key`. */
  readonly repeat: string;
}

export interface OperationResult<Answer = unknown> {
  readonly answer: Answer;
  /** Sent instead of the answer. */
  readonly csv?: string;
  /** Whose it is, where the path doesn't name the account. */
  readonly account?: string;
  /** Id of the changed key or grant. */
  readonly target?: string;
  readonly before?: unknown;
  readonly after?: unknown;
  /** An earlier request made the change. */
  readonly repeated?: boolean;
}

/** Undefined if every operator may do it. */
export function permissionFor({
  change,
  isForAll,
}: Pick<Endpoint, 'change' | 'isForAll'>): Permission | undefined {
  return isForAll ? undefined : (change?.needs ?? 'read');
}

/** Schema of parameters or a body with no members. */
export const nothing: Schema<object> = object({});

/** A list in OpenAI's shape. */
export function list<Row>(data: Row[]): { object: 'list'; data: Row[] } {
  return { object: 'list', data };
}

export function endpoint<
  Params extends Schema<object>,
  Query extends Schema<object>,
  Body extends Schema,
  Answer extends Schema,
>({ run, ...parts }: EndpointDefinition<Params, Query, Body, Answer>): Endpoint {
  return {
    ...parts,
    prepare(sent) {
      const input = {
        params: validate(parts.params, sent.params, 'the path'),
        query: validate(parts.query, sent.query, 'the query'),
        body: validate(parts.body, sent.body, 'the body'),
        idempotencyKey: sent.idempotencyKey,
      };
      return { body: input.body, run: (router, operator) => run({ ...input, operator }, router) };
    },
  };
}
