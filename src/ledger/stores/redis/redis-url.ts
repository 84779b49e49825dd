/** What a store URL says: where Redis is, in which shape, and how to log in. */
export interface RedisUrl {
  readonly shape: 'single' | 'cluster' | 'sentinel';
  /** One server, some nodes of a cluster, or the sentinels. */
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly tls: boolean;
  readonly username?: string;
  readonly password?: string;
  /** Number of the database; 0 in a cluster, which has no other. */
  readonly db: number;
  /** What the sentinels call the primary; empty without sentinels. */
  readonly primary: string;
  readonly keyPrefix: string;
}

/**
 * Reads `redis://user:password@host:port/db?prefix=app:`, `redis+cluster://host:port,host:port`,
 * `redis+sentinel://host,host/primary/db`, or any of them with `rediss` for TLS.
 *
 * @throws {TypeError} saying what is wrong with it; its password is never shown
 */
export function parseRedisUrl(url: string): RedisUrl {
  const refuse = (what: string): TypeError => new TypeError(`store ${what}, got "${withoutPassword(url)}"`);
  const parts = PARTS.exec(url)?.groups;
  if (!parts) {
    throw refuse('must be redis://HOST, redis+cluster://HOST,HOST or redis+sentinel://HOST,HOST/PRIMARY');
  }
  const { scheme = '', login = '', hosts = '', path = '', query = '' } = parts;
  const shape = scheme.endsWith('cluster') ? 'cluster' : scheme.endsWith('sentinel') ? 'sentinel' : 'single';
  const addresses = hosts.split(',').map((address) => {
    const found = readAddress(address, shape === 'sentinel' ? SENTINEL_PORT : REDIS_PORT);
    if (!found) throw refuse('must name hosts as HOST or HOST:PORT');
    return found;
  });
  if (shape === 'single' && addresses.length > 1) {
    throw refuse('must name one host; for more it is redis+cluster:// or redis+sentinel://');
  }

  const steps = path.split('/').slice(1);
  const primary = shape === 'sentinel' ? (decoded(steps.shift() ?? '') ?? '') : '';
  if (shape === 'sentinel' && primary === '') {
    throw refuse('must name the primary, as the sentinels do: redis+sentinel://HOST,HOST/PRIMARY');
  }
  const [db = '', ...more] = steps;
  if (!/^\d{0,5}$/.test(db) || more.length > 0) throw refuse('must end with the number of a database');
  if (shape === 'cluster' && Number(db) !== 0) throw refuse('can have no database in a cluster but 0');

  const [username, password] = [login.split(':', 1)[0] ?? '', login.replace(/^[^:]*:?/, '')].map(decoded);
  if (username === undefined || password === undefined) throw refuse('must percent-encode its password');
  if (username !== '' && password === '') throw refuse('must give USER:PASSWORD, or :PASSWORD alone');

  const options = new URLSearchParams(query);
  for (const name of options.keys()) {
    if (name !== 'prefix' || options.getAll(name).length > 1) throw refuse('can have one option, ?prefix=');
  }
  const keyPrefix = options.get('prefix') ?? '';
  if (/[{}]/.test(keyPrefix)) throw refuse('must have no braces in its prefix');
  return {
    shape,
    hosts: addresses,
    tls: scheme.startsWith('rediss'),
    ...(username !== '' && { username }),
    ...(password !== '' && { password }),
    db: Number(db),
    primary,
    keyPrefix,
  };
}

/** By hand, because URL refuses a list of hosts. */
const PARTS =
  /^(?<scheme>rediss?(?:\+cluster|\+sentinel)?):\/\/(?:(?<login>[^@/?#]*)@)?(?<hosts>[^@/?#]+)(?<path>\/[^?#]*)?(?:\?(?<query>[^#]*))?$/;

const REDIS_PORT = 6379;
const SENTINEL_PORT = 26_379;

/** Fit to be shown: without what may be a password, wherever in a broken URL it stands. */
export function withoutPassword(url: string): string {
  const at = url.lastIndexOf('@');
  const [beginning = ''] = /^[a-z+]*:?\/*/.exec(url) ?? [];
  return (at === -1 ? url : `${beginning}***${url.slice(at)}`).replace(/\?[^]*$/, '?***');
}

function readAddress(address: string, defaultPort: number): { host: string; port: number } | undefined {
  const [, bracketed, name, digits] =
    /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(address) ?? [];
  const host = bracketed ?? name;
  const port = digits === undefined ? defaultPort : Number(digits);
  return host !== undefined && port >= 1 && port <= 65_535 ? { host, port } : undefined;
}

/** Undefined where the percent signs make no sense. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
