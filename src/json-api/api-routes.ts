import { decodeOnce, isTooLong, pathOf, trimSlashes } from '../http/url.ts';
import type { Method } from './endpoint.ts';

/** What a path of an API is routed to. */
export type RouteMatch<Operation> =
  | { readonly kind: 'page' | 'description'; readonly path: string }
  | {
      readonly kind: 'resource';
      /** Without the mount, with its parameters decoded: `/accounts/acme/grants`. */
      readonly path: string;
      /** By method. */
      readonly endpoints: ReadonlyMap<string, Operation>;
      readonly params: Readonly<Record<string, string>>;
    };

/**
 * Routes a path, whatever the mount: the leftmost segment that an endpoint's path starts with is taken as its start, and
 * the rest must match that endpoint. The mount itself is the page.
 */
export class ApiRoutes<Operation extends { readonly path: string; readonly method: Method }> {
  readonly #basePath: string;
  readonly #resources: readonly RoutePattern<Operation>[];
  readonly #firstSegments: ReadonlySet<string>;

  constructor(endpoints: readonly Operation[], basePath: string) {
    this.#basePath = basePath;
    const byPath = new Map<string, Map<string, Operation>>();
    for (const endpoint of endpoints) {
      const byMethod = byPath.get(endpoint.path) ?? new Map<string, Operation>();
      byPath.set(endpoint.path, byMethod.set(endpoint.method, endpoint));
    }
    this.#resources = [...byPath].map(([path, byMethod]) => ({ pattern: splitSegments(path), byMethod }));
    this.#firstSegments = new Set([
      DESCRIPTION,
      ...this.#resources.map(({ pattern: [first = ''] }) => first),
    ]);
  }

  /** @param acceptsPage - the client is a navigating browser: it gets the page also under a mount that `basePath` doesn't name */
  match(url: string, acceptsPage: boolean): RouteMatch<Operation> | undefined {
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
      const params = matchParameters(pattern, rest);
      if (!params) continue;
      const served = pattern.map((part) =>
        isParameter(part) ? shown(params[parameterName(part)] ?? '') : part,
      );
      return { kind: 'resource', path: `/${served.join('/')}`, endpoints: byMethod, params };
    }
    return undefined;
  }
}

/** A parameter as a path shows it: as it is, but for what would make two paths look the same. */
function shown(parameter: string): string {
  return parameter.replaceAll('%', '%25').replaceAll('/', '%2F');
}

const DESCRIPTION = 'openapi.json';

interface RoutePattern<Operation> {
  readonly pattern: readonly string[];
  readonly byMethod: Map<string, Operation>;
}

/** Ignores slashes at either end. */
function splitSegments(path: string): string[] {
  const trimmed = trimSlashes(path);
  const start = trimmed.search(/[^/]/);
  return start === -1 ? [] : trimmed.slice(start).split('/');
}

/** Each path has one spelling: a parameter with needless or invalid percent-encoding doesn't match. */
function matchParameters(
  pattern: readonly string[],
  segments: readonly string[],
): Record<string, string> | undefined {
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

/** `{account}` → `account` */
function parameterName(part: string): string {
  return part.slice(1, -1);
}
