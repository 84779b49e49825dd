/** The path without query, also of a request in absolute form (`GET http://host/v1/models`). */
export function pathOf(url: string): string {
  const path = url.startsWith('/') ? url : url.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '');
  const end = path.search(/[?#]/);
  return end === -1 ? path : path.slice(0, end);
}

/** Whether a path is longer than any that is served, and needs no look: IDs of models are short, mounts are, too. */
export function isTooLong(path: string): boolean {
  return path.length > MAX_PATH_LENGTH;
}

const MAX_PATH_LENGTH = 4096;

/** What stands after the question mark. */
export function queryOf(url: string): URLSearchParams {
  return new URLSearchParams(/\?([^#]*)/.exec(url)?.[1]);
}

/** A piece of a path that can't be decoded stands for itself, and so for nothing that there is. */
export function decodeOnce(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** A path without the slashes at its end; not by a regular expression, which takes the square of their number. */
export function trimSlashes(path: string): string {
  let end = path.length;
  while (end > 0 && path.charCodeAt(end - 1) === SLASH) end -= 1;
  return path.slice(0, end);
}

const SLASH = 0x2f;
