/** The path without the query; also for a request in absolute form (`GET http://host/v1/models`). */
export function pathOf(url: string): string {
  const path = url.startsWith('/') ? url : url.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '');
  const end = path.search(/[?#]/);
  return end === -1 ? path : path.slice(0, end);
}

/** Whether a path is longer than any endpoint's: model IDs and mount prefixes are short. */
export function isTooLong(path: string): boolean {
  return path.length > MAX_PATH_LENGTH;
}

const MAX_PATH_LENGTH = 4096;

/** The query parameters. */
export function queryOf(url: string): URLSearchParams {
  return new URLSearchParams(/\?([^#]*)/.exec(url)?.[1]);
}

/** Decodes a path segment; returns it unchanged if it is malformed, so that it matches nothing. */
export function decodeOnce(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Removes trailing slashes. Not by a regular expression, which takes quadratic time. */
export function trimSlashes(path: string): string {
  let end = path.length;
  while (end > 0 && path.charCodeAt(end - 1) === SLASH) end -= 1;
  return path.slice(0, end);
}

const SLASH = 0x2f;

/** The host as sockets take it: an IPv6 address without brackets. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '');
}

/** The port of an `http:` or `https:` URL, also where it is the default one. */
export function portOf({ port, protocol }: URL): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}
