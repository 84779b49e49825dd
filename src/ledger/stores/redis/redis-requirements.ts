/** What a server says of itself that matters to money. */
export interface ServerFacts {
  /** What must be changed before it may keep money; undefined when nothing must. */
  readonly fault: string | undefined;
  /** Its process, and the history that it replicates: another one may lack what was acknowledged. Undefined where it isn't told. */
  readonly identity: string | undefined;
  readonly replicas: number;
  /** It can be waited for until its disk has a write. */
  readonly canWaitForDisk: boolean;
}

/** @param info - the reply to INFO, all sections that it has by default */
export function readServerFacts(info: string): ServerFacts {
  const fields = new Map(
    info.split('\r\n').map((line): [string, string] => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 1)];
    }),
  );
  const redis = versionOf(fields.get('redis_version'));
  // Valkey calls itself Redis 7.2 for the sake of old clients.
  const version = Math.max(redis, versionOf(fields.get('valkey_version')));
  const [run, history] = [fields.get('run_id'), fields.get('master_replid')];
  return {
    identity: run === undefined ? undefined : `${run} ${history ?? ''}`,
    fault: faultOf(version, fields),
    replicas: Number(fields.get('connected_slaves') ?? 0),
    canWaitForDisk: version >= 7.02 && fields.get('aof_enabled') === '1',
  };
}

function faultOf(version: number, fields: ReadonlyMap<string, string>): string | undefined {
  const said = fields.get('redis_version');
  if (said !== undefined && version < 7) {
    return `Redis 7.0 or later, or Valkey, is needed; this is Redis ${said}`;
  }
  const policy = fields.get('maxmemory_policy') ?? 'noeviction';
  if (policy !== 'noeviction') {
    return (
      `Redis may evict credits: its maxmemory-policy is ${policy}. ` +
      'Set it to noeviction, by CONFIG SET maxmemory-policy noeviction and in its configuration'
    );
  }
  return undefined;
}

/** 7.2.4 as 7.02; 0 where there is none. */
function versionOf(text = ''): number {
  const [major = 0, minor = 0] = text.split('.').map(Number);
  return major + minor / 100;
}
