import { useEffect, useState } from 'preact/hooks';

/** What the address asks for: `#/requests/ID?status=5xx`. Any other fragment is the overview's. */
export interface Route {
  readonly view: string;
  /** Of the one thing that is shown; undefined for a list. */
  readonly id: string | undefined;
  readonly query: URLSearchParams;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => routeIn(location.hash));
  useEffect(() => {
    const follow = (): void => setRoute(routeIn(location.hash));
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return route;
}

function routeIn(hash: string): Route {
  if (!hash.startsWith('#/'))
    return { view: 'overview', id: undefined, query: new URLSearchParams(hash.slice(1)) };
  const [path = '', search = ''] = hash.slice(2).split('?', 2);
  const [view = '', id] = path.split('/', 2);
  return { view, id: id === undefined ? undefined : decoded(id), query: new URLSearchParams(search) };
}

function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

/** The address of a view, of one thing in it, or of a list with filters; empty filters are left out. */
export function hrefOf(view: string, id?: string, query: Readonly<Record<string, string>> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== '');
  const search = new URLSearchParams(given).toString();
  return `#/${view}${id === undefined ? '' : `/${encodeURIComponent(id)}`}${search && `?${search}`}`;
}
