/** A change that an operator made, or tried to make. */
export interface AuditEvent {
  /** UTC, as `2026-11-21T14:00:00.000Z`. */
  readonly at: string;
  /** What `authorize` called who asked; undefined where it knew nobody. */
  readonly operator?: string;
  /** As `grants.create` or `keys.revoke`. */
  readonly action: string;
  readonly account: string;
  /** Id of the key, grant or adjustment, where it is known. */
  readonly target?: string;
  /** `x-request-id` of the answer. */
  readonly requestId: string;
  /** As the connection, or Express's `req.ip`, has it; undefined through the Web door. */
  readonly ip?: string;
  /** `repeated`: it was done before, and not again. `failed`: by a fault of ours or of the store's, perhaps after it was done. */
  readonly outcome: 'done' | 'repeated' | 'refused' | 'failed';
  readonly status: number;
  /** Of the refusal or failure. */
  readonly code?: string;
  /** What was asked for, where it could be read. Never a secret: what looks like a key is masked. */
  readonly body?: unknown;
  /** What was changed, of what can be read before and after. */
  readonly before?: unknown;
  readonly after?: unknown;
}

/** Without an `onAudit` of the host's, an event is a line of JSON on stderr. */
export function logAudit(event: AuditEvent): void {
  console.error(JSON.stringify({ source: 'chat-completions-router', event: 'audit', ...event }));
}

/** The same without what looks like an API key, wherever an operator put it by mistake: in a name, a reason. */
export function withoutSecrets<Value>(value: Value): Value {
  return JSON.parse(JSON.stringify(value), (_key, text: unknown) =>
    typeof text === 'string' ? text.replace(SECRET, 'sk-***') : text,
  );
}

/** Ours, and those of providers, which begin alike. */
const SECRET = /\bsk-[\w-]{8,}/g;
