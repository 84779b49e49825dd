/** Properties of a server that matter for storing money. */
export interface ServerFacts {
  /** What must be changed before the server may store money; undefined when it is fit. */
  readonly fault: string | undefined;
  /** Run id and replication id: a server with another identity may lack acknowledged writes. Undefined if unknown. */
  readonly identity: string | undefined;
  readonly replicas: number;
  /** Whether WAITAOF works: it waits until a write is on the disk. */
  readonly canWaitForDisk: boolean;
}

/** @param info - the reply to INFO, with the default sections */
export function readServerFacts(info: string): ServerFacts {
  const fields = new Map(
    info.split('\r\n').map((line): [string, string] => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 1)];
    }),
  );
  const redis = versionOf(fields.get('redis_version'));
  // Valkey reports redis_version 7.2 for compatibility.
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
    return `requires Redis >= 7.0 or Valkey, found Redis ${said}`;
  }
  const policy = fields.get('maxmemory_policy') ?? 'noeviction';
  if (policy !== 'noeviction') {
    return (
      `Redis may evict credits: its maxmemory-policy is ${policy}. ` +
      'Set it to noeviction, with CONFIG SET maxmemory-policy noeviction and in the configuration file'
    );
  }
  return undefined;
}

/** 7.2.4 as 7.02; 0 if absent. */
function versionOf(text = ''): number {
  const [major = 0, minor = 0] = text.split('.').map(Number);
  return major + minor / 100;
}
