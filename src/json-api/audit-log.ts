/** A change that an operator made, or tried to make. */
export interface AuditEvent {
  /** UTC, e.g. `2026-11-21T14:00:00.000Z`. */
  readonly at: string;
  /** Name that `authorize` returned; undefined if it rejected the request. */
  readonly operator?: string;
  /** E.g. `grants.create` or `keys.revoke`. */
  readonly action: string;
  readonly account: string;
  /** Id of the key, grant or adjustment, if known. */
  readonly target?: string;
  /** `x-request-id` of the response. */
  readonly requestId: string;
  /** Express's `req.ip`, else the connection's peer address; undefined through the fetch handler. */
  readonly ip?: string;
  /** `repeated`: done by an earlier request, not again. `failed`: an internal or store error, possibly after the change was applied. */
  readonly outcome: 'done' | 'repeated' | 'refused' | 'failed';
  readonly status: number;
  /** Error code of a `refused` or `failed` change. */
  readonly code?: string;
  /** The request's body, if it could be parsed. Text that looks like an API key is masked; what names a key or a session by its secret is its ID, or `***` if none was found. */
  readonly body?: unknown;
  /** The changed object before and after, where it can be read. */
  readonly before?: unknown;
  readonly after?: unknown;
}

/** Default of `onAudit`: a line of JSON on stderr. */
export function logAudit(event: AuditEvent): void {
  console.error(JSON.stringify({ source: 'chat-completions-router', event: 'audit', ...event }));
}

/** Masks text that looks like an API key: an operator may have put one into a name or a reason by mistake. */
export function withoutSecrets<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value), (_key, text: unknown) =>
    typeof text === 'string' ? text.replace(SECRET, 'sk-***').replace(SESSION, withoutSignature) : text,
  );
}

/** The id of a session alone is no secret: its signature follows a dot. */
function withoutSignature(session: string): string {
  return /\.[\w-]/.test(session) ? 'ses-***' : session;
}

/** Keys of this router and of providers start with `sk-`. */
const SECRET = /\bsk-[\w-]{8,}/g;
/** A session, or the id of one: one class to the end, so that the regex is linear. */
const SESSION = /\bses-[\w.-]+/g;
