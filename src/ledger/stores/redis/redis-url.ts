/** A parsed store URL: topology, addresses and credentials of Redis. */
export interface RedisUrl {
  readonly shape: 'single' | 'cluster' | 'sentinel';
  /** The server, some nodes of the cluster, or the sentinels. */
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly tls: boolean;
  readonly username?: string;
  readonly password?: string;
  /** Database number; always 0 in a cluster. */
  readonly db: number;
  /** The primary's name in the sentinels; empty without sentinels. */
  readonly primary: string;
  readonly keyPrefix: string;
}

/**
 * Parses `redis://user:password@host:port/db?prefix=app:`, `redis+cluster://host:port,host:port`,
 * `redis+sentinel://host,host/primary/db`, or any of them with `rediss` for TLS.
 *
 * @throws {TypeError} that names the error, without the password
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
    throw refuse('must name one host; use redis+cluster:// or redis+sentinel:// for several');
  }

  const steps = path.split('/').slice(1);
  const primary = shape === 'sentinel' ? (decoded(steps.shift() ?? '') ?? '') : '';
  if (shape === 'sentinel' && primary === '') {
    throw refuse('must name the primary, as the sentinels do: redis+sentinel://HOST,HOST/PRIMARY');
  }
  const [db = '', ...more] = steps;
  if (!/^\d{0,5}$/.test(db) || more.length > 0) throw refuse('must end with a database number');
  if (shape === 'cluster' && Number(db) !== 0) throw refuse('must use database 0 in a cluster');

  const [username, password] = [login.split(':', 1)[0] ?? '', login.replace(/^[^:]*:?/, '')].map(decoded);
  if (username === undefined || password === undefined) throw refuse('must percent-encode its password');
  if (username !== '' && password === '') throw refuse('must give USER:PASSWORD, or :PASSWORD alone');

  const options = new URLSearchParams(query);
  for (const name of options.keys()) {
    if (name !== 'prefix' || options.getAll(name).length > 1)
      throw refuse('supports only the option ?prefix=, once');
  }
  const keyPrefix = options.get('prefix') ?? '';
  if (/[{}]/.test(keyPrefix)) throw refuse('must not contain braces in its prefix');
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

/** A pattern, because `URL` rejects a list of hosts. */
const PARTS =
  /^(?<scheme>rediss?(?:\+cluster|\+sentinel)?):\/\/(?:(?<login>[^@/?#]*)@)?(?<hosts>[^@/?#]+)(?<path>\/[^?#]*)?(?:\?(?<query>[^#]*))?$/;

const REDIS_PORT = 6379;
const SENTINEL_PORT = 26_379;

/** A URL to show in messages: without its password and query, also if the URL is malformed. Its user is shown. */
export function withoutPassword(url: string): string {
  const at = url.lastIndexOf('@');
  const [beginning = ''] = /^(?:[a-z+]+:\/\/|redis[a-z+]*:?\/*)/.exec(url) ?? [];
  // With nothing after its colon it may be a password; without the scheme, anything.
  const [, user = ''] = /^[a-z+]+:\/\/([\w.-]{0,64}:)./.exec(url.slice(0, Math.max(at, 0))) ?? [];
  return (at === -1 ? url : `${beginning}${user}***${url.slice(at)}`).replace(/\?[^]*$/, '?***');
}

function readAddress(address: string, defaultPort: number): { host: string; port: number } | undefined {
  const [, bracketed, name, digits] =
    /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(address) ?? [];
  const host = bracketed ?? name;
  const port = digits === undefined ? defaultPort : Number(digits);
  return host !== undefined && port >= 1 && port <= 65_535 ? { host, port } : undefined;
}

/** Percent-decoded; undefined if malformed. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
