import { randomUUID } from 'node:crypto';

import type { LedgerEvent } from '../ledger/contract/events.ts';
import { OutboxFolder } from '../ledger/reliability/outbox-files.ts';
import type { Hooks, Settled } from '../observability/hooks.ts';
import { showValue } from '../platform/show-value.ts';
import { optionsObject } from '../platform/options-object.ts';
import { WebhookQueue } from './queue.ts';
import { parseSecret } from './signature.ts';

export interface WebhookOptions {
  /** Where events are posted to: `https://`, or `http://` on this machine. */
  readonly url: string;
  /** `whsec_` and base64 of 24 to 64 random bytes; several while it is replaced: each signs. */
  readonly secret: string | readonly string[];
  /** The types of the events to send: `settled`, and those of the ledger, such as `balance_below`. */
  readonly events: readonly WebhookEvent[];
  /**
   * A folder on a local disk, of this endpoint alone, in which events are kept until they are delivered. The processes of a
   * machine share it: once a router has the hooks, or at the first event, those of processes that are gone are sent.
   *
   * @default none: events are kept in memory
   */
  readonly dir?: string;
  /** How long the endpoint may take to answer, in ms. @default 15000 */
  readonly timeoutMs?: number;
  /** Called when an event is given up, and when the folder can't be used. @default logs to stderr */
  readonly onError?: (error: Error) => void;
}

/** The type of an event that can be sent. */
export type WebhookEvent = 'settled' | LedgerEvent['type'];

/** A sender of events. */
export interface Webhooks {
  /** For the option `hooks` of the router. */
  readonly hooks: Hooks;
  /** Events that wait to be delivered. */
  readonly waiting: number;
  /** Ends what is being sent. What waits stays in the folder, for the next start. Call it after the router's `close`. */
  close(): Promise<void>;
}

const EVENTS: Record<WebhookEvent, true> = {
  settled: true,
  overrun: true,
  write_off: true,
  balance_below: true,
  budget_at: true,
  end_users_full: true,
  dimension_full: true,
  frozen: true,
  rollback: true,
  account_lost: true,
  rollback_repaired: true,
  repair_refused: true,
  outbox_growth: true,
  dead_letter: true,
  outbox_failed: true,
  outbox_recovered: true,
  outbox_damaged: true,
  store_unavailable: true,
  store_recovered: true,
  journal_compacted: true,
  journal_long: true,
};

const MEMBERS: Record<keyof WebhookOptions, true> = {
  url: true,
  secret: true,
  events: true,
  dir: true,
  timeoutMs: true,
  onError: true,
};

const LOOPBACK: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Sends events to a URL, signed as Standard Webhooks asks for, until the endpoint has answered each with a 2xx.
 *
 * No request waits for it.
 * @throws {TypeError} naming the invalid option
 */
export function createWebhooks(options: WebhookOptions): Webhooks {
  optionsObject(options, MEMBERS);
  const { secret, events, dir, timeoutMs = 15_000, onError = logError } = options;
  const url = parseUrl(options.url);
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret];
  if (secrets.length === 0) throw new TypeError('secret must be one or more secrets, got []');
  const keys = secrets.map((each, n) => parseSecret(each, Array.isArray(secret) ? `secret[${n}]` : 'secret'));
  const wanted = parseEvents(events);
  if (dir !== undefined && (typeof dir !== 'string' || dir === '')) {
    throw new TypeError(`dir must be the path of a folder, got ${showValue(dir)}`);
  }
  if (!Number.isSafeInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > 600_000) {
    throw new TypeError(`timeoutMs must be an integer from 1 to 600000, got ${showValue(timeoutMs)}`);
  }
  const files = dir === undefined ? undefined : new OutboxFolder(dir);
  const queue = new WebhookQueue({ url, keys, timeoutMs, files, onError });
  const send = (type: WebhookEvent, account: string, data: object): void => {
    if (!wanted.has(type)) return;
    const body = JSON.stringify({ type, timestamp: new Date().toISOString(), data });
    queue.add({ id: `msg_${randomUUID()}`, account, body, createdAt: Date.now() });
  };
  return {
    hooks: {
      // A command evaluates a config, too, and delivers nothing.
      onRouter: () => {
        queue.open();
      },
      onLedgerEvent: (event) => {
        const { type, ...data } = event;
        send(type, 'account' in event ? event.account : '', data);
      },
      onSettled: (settled: Settled) => {
        send('settled', settled.account, settled);
      },
      keepsDefaultLog: true,
    },
    get waiting() {
      return queue.waiting;
    },
    close: () => queue.close(),
  };
}

function parseUrl(text: unknown): URL {
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : undefined;
  const isPrivate = url?.protocol === 'http:' && LOOPBACK.includes(url.hostname);
  if (url && (url.protocol === 'https:' || isPrivate) && url.username === '' && url.password === '') {
    return url;
  }
  const got = typeof text === 'string' ? JSON.stringify(withoutPassword(text)) : showValue(text);
  throw new TypeError(
    `url must be an https URL without a password, or an http URL of this machine, got ${got}`,
  );
}

/** The text without what stands between `//` and the last `@`. */
function withoutPassword(text: string): string {
  const [start, end] = [text.indexOf('//'), text.lastIndexOf('@')];
  return start === -1 || end < start ? text : `${text.slice(0, start)}//***${text.slice(end)}`;
}

function parseEvents(events: unknown): ReadonlySet<string> {
  const known = Object.keys(EVENTS);
  if (!Array.isArray(events) || events.length === 0) {
    throw new TypeError(`events must be one or more of ${known.join(', ')}, got ${showValue(events)}`);
  }
  for (const event of events) {
    if (!known.includes(String(event))) {
      throw new TypeError(`events must be of ${known.join(', ')}, got ${showValue(event)}`);
    }
  }
  return new Set(events.map(String));
}

function logError(error: Error): void {
  console.error('chat-completions-router:', '-', error.message);
}
