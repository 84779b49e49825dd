import type * as v from 'valibot';

import { NotPermittedError } from './errors.ts';
import { object, type Schema } from './schema.ts';
import { validate } from './validation.ts';
import type { Actor } from './host-view.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/**
 * One operation of an API. Its schemas validate requests and make the OpenAPI document.
 *
 * @typeParam Services - what its operations use, the same for each request
 */
export interface Endpoint<Services, Caller extends Actor> extends Omit<
  EndpointDefinition<Services, Caller>,
  'run'
> {
  /**
   * Validates a request.
   *
   * @throws {RouterError} a 400 that names the invalid parameter
   */
  prepare(sent: RawInput): PreparedCall<Services, Caller>;
}

/** The parts of a request, not validated yet. */
export interface RawInput {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** Parsed JSON; undefined if the request has no body. */
  readonly body: unknown;
  readonly idempotencyKey: string | undefined;
  /** Of the page that sent it; undefined for a program. */
  readonly origin: string | undefined;
}

/** A validated request. */
export interface PreparedCall<Services, Caller extends Actor> {
  /** For the audit event. */
  readonly body: unknown;
  run(services: Services, caller: Caller): Promise<OperationResult>;
}

/** An operation as its file defines it. */
export interface EndpointDefinition<
  Services,
  Caller extends Actor,
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
  /** Permission that it needs, or `none`. @default that of the change, or `read` */
  readonly needs?: Caller['may'][number] | 'none';
  /** Only for operations that change something. */
  readonly change?: ChangeNotes<Caller['may'][number]>;
  readonly run: (
    input: {
      readonly params: v.InferOutput<Params>;
      readonly query: v.InferOutput<Query>;
      readonly body: v.InferOutput<Body>;
      readonly idempotencyKey: string | undefined;
      readonly origin: string | undefined;
      readonly caller: Caller;
    },
    services: Services,
  ) => Promise<OperationResult<v.InferOutput<Answer>>>;
}

export interface ChangeNotes<Permission extends string = string> {
  /** Its `action` in audit events, e.g. `grants.create`. */
  readonly action: string;
  readonly needs: Permission;
  /** Member of the body that may be a secret, whole or in part: audit events have the ID of what it found instead, or `***`. */
  readonly secret?: string;
  /** For the OpenAPI document: the response to the same request with the same `Idempotency-Key`. */
  readonly repeat: string;
}

export interface OperationResult<Answer = unknown> {
  readonly answer: Answer;
  /** Sent instead of the answer. */
  readonly csv?: string;
  /** The `next_cursor` of the answer, for which CSV has no place: sent as `x-ccr-next-cursor`. */
  readonly nextCursor?: string | undefined;
  /** Whose it is, where the path doesn't name the account. */
  readonly account?: string;
  /** Id of the changed key or grant. */
  readonly target?: string;
  readonly before?: unknown;
  readonly after?: unknown;
  /** An earlier request made the change. */
  readonly repeated?: boolean;
}

/** Undefined if everyone may do it. */
export function permissionFor<Permission extends string>({
  change,
  needs = change?.needs ?? 'read',
}: {
  readonly change?: ChangeNotes<Permission> | undefined;
  readonly needs?: Permission | 'none' | 'read' | undefined;
}): Permission | 'read' | undefined {
  return needs === 'none' ? undefined : needs;
}

/** @throws {NotPermittedError} */
export function assertMay({ name, may }: Actor, needed: string): void {
  if (!may.includes(needed)) throw new NotPermittedError(name, needed, may);
}

/** Schema of parameters or a body with no members. */
export const nothing: Schema<object> = object({});

/** A list in OpenAI's shape. */
export function list<Row>(data: Row[]): { object: 'list'; data: Row[] } {
  return { object: 'list', data };
}

/** Makes the endpoints of an API. */
export function endpointMaker<Services, Caller extends Actor>() {
  return <
    Params extends Schema<object>,
    Query extends Schema<object>,
    Body extends Schema,
    Answer extends Schema,
  >({
    run,
    ...parts
  }: EndpointDefinition<Services, Caller, Params, Query, Body, Answer>): Endpoint<Services, Caller> => ({
    ...parts,
    prepare(sent) {
      const input = {
        params: validate(parts.params, sent.params, 'the path'),
        query: validate(parts.query, sent.query, 'the query'),
        body: validate(parts.body, sent.body, 'the body'),
        idempotencyKey: sent.idempotencyKey,
        origin: sent.origin,
      };
      return { body: input.body, run: (services, caller) => run({ ...input, caller }, services) };
    },
  });
}
