import type * as v from 'valibot';

import { object, type Schema } from './schema.ts';
import type { AdministeredRouter } from './options.ts';
import { validate } from './validation.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** One operation of the admin API: what it takes and answers is said once, for the door and for its description. */
export interface Endpoint extends Omit<EndpointDefinition, 'run'> {
  /**
   * Judges what was sent.
   *
   * @throws a 400 that names the parameter at fault
   */
  prepare(sent: RawInput): PreparedCall;
}

/** What came with a request, not judged yet. */
export interface RawInput {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** Undefined where none came. */
  readonly body: unknown;
  readonly idempotencyKey: string | undefined;
}

/** A request that can be carried out. */
export interface PreparedCall {
  /** What of it the audit may show. */
  readonly body: unknown;
  run(router: AdministeredRouter): Promise<OperationResult>;
}

/** An operation as its file writes it. */
export interface EndpointDefinition<
  Params extends Schema<object> = Schema<object>,
  Query extends Schema<object> = Schema<object>,
  Body extends Schema = Schema,
  Answer extends Schema = Schema,
> {
  /** Names it in the description, as `createGrant`. */
  readonly operation: string;
  readonly method: Method;
  /** Inside the mount, as `/accounts/{account}`. */
  readonly path: string;
  readonly summary: string;
  readonly params: Params;
  readonly query: Query;
  /** A component of the description, or `nothing`. */
  readonly body: Body;
  /** No body means an empty object. */
  readonly bodyIsOptional?: boolean;
  /** A component of the description. */
  readonly answer: Answer;
  /** Of an answer to what was done now, and not before. @default 200 */
  readonly status?: number;
  /** Statuses of what it refuses, beside those that every operation can have. */
  readonly errorStatuses?: readonly number[];
  /** Only of what changes something. */
  readonly change?: ChangeNotes;
  readonly run: (
    input: {
      readonly params: v.InferOutput<Params>;
      readonly query: v.InferOutput<Query>;
      readonly body: v.InferOutput<Body>;
      readonly idempotencyKey: string | undefined;
    },
    router: AdministeredRouter,
  ) => Promise<OperationResult<v.InferOutput<Answer>>>;
}

export interface ChangeNotes {
  /** What the audit calls it, as `grants.create`. */
  readonly action: string;
  /** What the same request answers when it is sent again with the same `Idempotency-Key`. */
  readonly repeat: string;
}

export interface OperationResult<Answer = unknown> {
  readonly answer: Answer;
  /** Id of the key or grant that was changed. */
  readonly target?: string;
  readonly before?: unknown;
  readonly after?: unknown;
  /** It was done before, and not again. */
  readonly repeated?: boolean;
}

/** Where nothing is taken, an empty object is. */
export const nothing: Schema<object> = object({});

/** A list as it is answered. */
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
      return { body: input.body, run: (router) => run(input, router) };
    },
  };
}
