import { decodeOnce, isTooLong, pathOf, trimSlashes } from '../http/url.ts';
import type { Endpoint } from './endpoint.ts';

/** What a path of the admin door stands for. */
export type RouteMatch =
  | { readonly kind: 'page' | 'description'; readonly path: string }
  | {
      readonly kind: 'resource';
      /** As it is served, parameters decoded, without what stood before it: `/accounts/acme/grants`. */
      readonly path: string;
      /** By method. */
      readonly endpoints: ReadonlyMap<string, Endpoint>;
      readonly params: Readonly<Record<string, string>>;
    };

/**
 * Finds what a path stands for, whatever the mount: the leftmost segment that begins an endpoint decides, and what
 * follows must be one. The mount itself is the page.
 */
export class AdminRoutes {
  readonly #basePath: string;
  readonly #resources: readonly RoutePattern[];
  readonly #firstSegments: ReadonlySet<string>;

  constructor(endpoints: readonly Endpoint[], basePath: string) {
    this.#basePath = basePath;
    const byPath = new Map<string, Map<string, Endpoint>>();
    for (const endpoint of endpoints) {
      const byMethod = byPath.get(endpoint.path) ?? new Map<string, Endpoint>();
      byPath.set(endpoint.path, byMethod.set(endpoint.method, endpoint));
    }
    this.#resources = [...byPath].map(([path, byMethod]) => ({ pattern: splitSegments(path), byMethod }));
    this.#firstSegments = new Set([
      DESCRIPTION,
      ...this.#resources.map(({ pattern: [first = ''] }) => first),
    ]);
  }

  /** @param acceptsPage - whoever asks is a browser that navigates: under a mount that nobody named, it gets the page */
  matchParameters(url: string, acceptsPage: boolean): RouteMatch | undefined {
    const path = pathOf(url);
    if (isTooLong(path)) return undefined;
    const base = this.#basePath;
    const inside = path === base || path.startsWith(`${base}/`) ? path.slice(base.length) : path;
    const segments = splitSegments(inside);
    const start = segments.findIndex((segment) => this.#firstSegments.has(segment));
    if (start === -1) return segments.length === 0 || acceptsPage ? { kind: 'page', path: '/' } : undefined;
    const rest = segments.slice(start);
    if (rest.length === 1 && rest[0] === DESCRIPTION) return { kind: 'description', path: `/${DESCRIPTION}` };
    for (const { pattern, byMethod } of this.#resources) {
      const params = match(pattern, rest);
      if (!params) continue;
      const served = pattern.map((part) => (isParameter(part) ? params[parameterName(part)] : part));
      return { kind: 'resource', path: `/${served.join('/')}`, endpoints: byMethod, params };
    }
    return undefined;
  }
}

const DESCRIPTION = 'openapi.json';

interface RoutePattern {
  readonly pattern: readonly string[];
  readonly byMethod: Map<string, Endpoint>;
}

/** Slashes at either end are taken for nothing. */
function splitSegments(path: string): string[] {
  const trimmed = trimSlashes(path);
  const start = trimmed.search(/[^/]/);
  return start === -1 ? [] : trimmed.slice(start).split('/');
}

/** One place has one spelling: a parameter that is percent-encoded beyond need, or wrongly, matches nothing. */
function match(pattern: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  if (pattern.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of pattern.entries()) {
    const segment = segments[i] ?? '';
    if (isParameter(part)) {
      const value = decodeOnce(segment);
      if (segment.includes('%') && encodeURIComponent(value) !== segment) return undefined;
      params[parameterName(part)] = value;
    } else if (part !== segment) return undefined;
  }
  return params;
}

function isParameter(part: string): boolean {
  return part.startsWith('{');
}

/** Of a parameter in a pattern, as `{account}`. */
function parameterName(part: string): string {
  return part.slice(1, -1);
}
