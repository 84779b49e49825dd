import * as v from 'valibot';

import { type RequestSearch, STATUS_CLASSES, type StatusClass } from '../request-log/search.ts';
import {
  accountId,
  integerInQuery,
  keyId,
  matching,
  object,
  oneOf,
  requestId,
  type Schema,
  textOf,
  time,
} from './schema.ts';

const STATUS_WANTED = `a status such as 429, or ${STATUS_CLASSES.join(', ')}`;

const ownMembers = {
  key: v.optional(keyId),
  model: v.optional(textOf(1, 256)),
  status: v.optional(statusInQuery()),
  from: v.optional(time),
  to: v.optional(time),
  cursor: v.optional(requestId),
  limit: v.optional(integerInQuery(1, 500)),
};

/** What the holder of an account searches its requests for: not for what providers did. */
export interface OwnRequestQuery {
  readonly key?: string | undefined;
  readonly model?: string | undefined;
  readonly status?: RequestSearch['status'] | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

export interface RequestQuery extends OwnRequestQuery {
  readonly account?: string | undefined;
  readonly provider?: string | undefined;
  readonly code?: string | undefined;
}

export const ownRequestQuery: Schema<OwnRequestQuery & { readonly format?: 'json' | 'csv' | undefined }> =
  object({
    ...ownMembers,
    format: v.optional(oneOf(['json', 'csv'])),
  });

export const requestQuery: Schema<RequestQuery> = object({
  account: v.optional(accountId),
  ...ownMembers,
  provider: v.optional(textOf(1, 128)),
  code: v.optional(textOf(1, 128)),
});

/** A query as the log of requests takes it. */
export function searchOf({ from, to, ...rest }: RequestQuery): RequestSearch {
  const given = Object.entries(rest).filter(([, value]) => value !== undefined);
  return {
    ...Object.fromEntries(given),
    ...(from !== undefined && { from: new Date(from) }),
    ...(to !== undefined && { to: new Date(to) }),
  };
}

function statusInQuery(): Schema<number | StatusClass> {
  const isClass = (text: string): text is StatusClass => STATUS_CLASSES.some((each) => each === text);
  return v.pipe(
    matching(STATUS_WANTED, /^(?:[1-5]\d\d|[245]xx)$/),
    v.transform((text) => (isClass(text) ? text : Number(text))),
  );
}
