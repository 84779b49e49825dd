import type { AuditEvent } from './audit-log.ts';

/** Options of every API beside `/v1`. */
export interface ApiOptions {
  /**
   * Called for every change that was made or tried, before the response is sent, which does not wait for a promise.
   *
   * @default a line of JSON on stderr
   */
  readonly onAudit?: (event: AuditEvent) => unknown;
  /**
   * Called for every internal error, including those of your other hooks.
   *
   * @default a line on stderr
   */
  readonly onError?: (error: Error, context: { readonly requestId: string }) => unknown;
  /**
   * Path that the API is mounted at, for frameworks that leave the mount in the URL; removed from a URL that has it. Only
   * needed if the mount contains a word such as `accounts` or `keys`, and to answer a mistyped path with 404.
   *
   * @default '/admin' for the admin API, '/account' for the account API
   */
  readonly basePath?: string;
}

/**
 * @param own - the other options of the API
 * @throws {TypeError} naming the invalid option
 */
export function checkApiOptions(maker: string, options: ApiOptions, own: readonly string[]): void {
  for (const name of ['onAudit', 'onError'] as const) {
    const hook: unknown = options[name];
    if (hook !== undefined && typeof hook !== 'function') {
      throw new TypeError(`${name} must be a function, got ${typeof hook}`);
    }
  }
  const { basePath = '' }: { readonly basePath?: unknown } = options;
  if (typeof basePath !== 'string' || !/^(\/|$)/.test(basePath)) {
    throw new TypeError(`basePath must begin with a slash, got ${JSON.stringify(basePath)}`);
  }
  const known = [...own, 'onAudit', 'onError', 'basePath'];
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new TypeError(`${maker} has no option ${JSON.stringify(unknown)}`);
}
