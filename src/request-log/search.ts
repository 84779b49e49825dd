import { forEachInSlices, nextTurn } from '../async/slices.ts';
import { isRequestId } from '../ledger/contract/request-ids.ts';
import type { RequestLogStore } from '../ledger/contract/request-log.ts';
import { optionsObject } from '../platform/options-object.ts';
import { type LoggedRequest, readRow } from './logged-request.ts';

/** What to search for; what isn't given matches all requests. */
export interface RequestSearch {
  readonly account?: string;
  /** Id of an API key. */
  readonly key?: string;
  /** The model's ID for clients. */
  readonly model?: string;
  /** A provider that was asked, whether or not it answered. */
  readonly provider?: string;
  /** A status, or a class of them. */
  readonly status?: number | StatusClass;
  /** Code of an error, of the request or of one of its attempts. */
  readonly code?: string;
  /** Requests that arrived at this time or later. */
  readonly from?: Date;
  /** Requests that arrived before this time. */
  readonly to?: Date;
  /** That of the answer before: where to go on. */
  readonly cursor?: string;
  /**
   * Most requests to return, 1 to 500.
   *
   * @default 50
   */
  readonly limit?: number;
}

export type StatusClass = '2xx' | '4xx' | '5xx';
export const STATUS_CLASSES: readonly StatusClass[] = ['2xx', '4xx', '5xx'];

export interface FoundRequests {
  /** The newest first. */
  readonly requests: readonly LoggedRequest[];
  /** For the next search: there may be more. A search looks at 10,000 requests at most, so there may be more even if none was found. */
  readonly cursor?: string;
}

const PAGE = 500;
/** Most requests that one search looks at. */
const MAX_SCANNED = 10_000;
const MAX_LIMIT = 500;

export async function findLogged(log: RequestLogStore, id: string): Promise<LoggedRequest | undefined> {
  if (!isRequestId(id)) return undefined;
  const row = await log.find(id);
  return row && readRow(row);
}

/** @throws {TypeError} naming the invalid member */
export async function searchLog(log: RequestLogStore, search: RequestSearch): Promise<FoundRequests> {
  checkSearch(search);
  const { account, from, to, limit = 50 } = search;
  const bounds = { ...(account !== undefined && { account }), from: idAt(from?.getTime() ?? 0), limit: PAGE };
  let before = search.cursor ?? (to ? idAt(to.getTime()) : NEWEST);
  const requests: LoggedRequest[] = [];
  for (let scanned = 0; scanned < MAX_SCANNED; scanned += PAGE) {
    const rows = await log.page({ ...bounds, before });
    let cursor: string | undefined;
    // Customers search, too: however many do, they share a small part of each turn of the event loop.
    await forEachInSlices(rows, (row) => {
      if (cursor !== undefined) return;
      const request = readRow(row);
      if (request && matches(request, search)) requests.push(request);
      if (requests.length === limit) cursor = row.id;
    });
    if (cursor !== undefined) return { requests, cursor };
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return { requests };
    before = last.id;
    await nextTurn();
  }
  return { requests, cursor: before };
}

const MEMBERS: Record<keyof RequestSearch, true> = {
  account: true,
  key: true,
  model: true,
  provider: true,
  status: true,
  code: true,
  from: true,
  to: true,
  cursor: true,
  limit: true,
};

function checkSearch(search: RequestSearch): void {
  optionsObject(search, MEMBERS);
  const { from, to, cursor, limit } = search;
  for (const [name, time] of Object.entries({ from, to })) {
    if (time !== undefined && (!(time instanceof Date) || Number.isNaN(time.getTime())))
      throw new TypeError(`${name} must be a valid Date, got ${JSON.stringify(time)}`);
  }
  if (cursor !== undefined && !isRequestId(cursor))
    throw new TypeError(`cursor must be that of an earlier search, got ${JSON.stringify(cursor)}`);
  if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT))
    throw new TypeError(`limit must be an integer from 1 to ${MAX_LIMIT}, got ${JSON.stringify(limit)}`);
}

function matches(request: LoggedRequest, { key, model, provider, status, code }: RequestSearch): boolean {
  const { attempts } = request;
  return (
    (key === undefined || request.key === key) &&
    (model === undefined || request.model === model) &&
    (provider === undefined ||
      request.provider === provider ||
      attempts.some((attempt) => attempt.provider === provider)) &&
    (status === undefined || isStatus(request.status, status)) &&
    (code === undefined ||
      request.code === code ||
      attempts.some((attempt) => attempt.code === code || attempt.upstreamCode === code))
  );
}

function isStatus(status: number, wanted: number | StatusClass): boolean {
  return typeof wanted === 'number' ? status === wanted : `${Math.floor(status / 100)}xx` === wanted;
}

/** The smallest id of a time, in ms. */
export function idAt(time: number): string {
  const digits = Math.min(Math.max(0, Math.floor(time)), LAST_TIME)
    .toString(36)
    .padStart(9, '0');
  return digits.padEnd(19, '0');
}

/** The last that nine digits can say. */
const LAST_TIME = 36 ** 9 - 1;
/** No id is greater. */
export const NEWEST: string = 'z'.repeat(19);
