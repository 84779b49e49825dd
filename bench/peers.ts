import { freePort, runForeign } from './foreign.ts';
import { bifrost } from './peers/bifrost.ts';
import { caddy } from './peers/caddy.ts';
import { haproxy } from './peers/haproxy.ts';
import { litellm } from './peers/litellm.ts';
import { nginx } from './peers/nginx.ts';
import { llmops, portkey } from './peers/node-gateways.ts';
import type { Peer } from './peers/peer.ts';
import type { Proxy, Context } from './proxy.ts';

const ALL: readonly Peer[] = [nginx, haproxy, caddy, portkey, llmops, bifrost, litellm];

export interface Peers {
  readonly found: readonly string[];
  /** By name, e.g. `1.15.2`. */
  readonly versions: Readonly<Record<string, string>>;
  /** For each other a line that says what it lacks. */
  readonly missing: readonly string[];
}

/**
 * Which peers this machine has, or can get, and which of them answer.
 *
 * @param wanted - their names; undefined for all
 */
export async function findPeers(
  context: Context,
  wanted: readonly string[] = ALL.map(({ name }) => name),
): Promise<Peers> {
  const versions: Record<string, string> = {};
  const missing: string[] = [];
  for (const name of wanted) {
    const peer = peerNamed(name);
    if (!peer) throw new Error(`There is no gateway "${name}"`);
    try {
      const version = await peer.install();
      await tryOut(peer, context);
      versions[peer.name] = version;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      missing.push(`${peer.name} is left out: ${reason.split('\n')[0]}`);
    }
  }
  return { found: Object.keys(versions), versions, missing };
}

export function peerNamed(name: string): Peer | undefined {
  return ALL.find((peer) => peer.name === name);
}

/** Those of them that are measured with a provider that is reached by TLS, too. */
export function tlsPeers(names: readonly string[]): readonly string[] {
  return names.filter((name) => peerNamed(name)?.canTls);
}

export async function startPeer(peer: Peer, context: Context): Promise<Proxy> {
  const port = await freePort();
  return runForeign(peer.name, port, peer.program({ ...context, port }), context.core);
}

const CHUNKS = 200;

/** @throws where it doesn't answer a request and a stream whole, or can't be measured here */
async function tryOut(peer: Peer, context: Context): Promise<void> {
  const proxy = await startPeer(peer, context);
  try {
    const json = await ask(proxy, 'json-1200', false);
    if (!json.includes('"chat.completion"'))
      throw new Error(`it answers a request with ${json.slice(0, 100)}`);
    const events = await ask(proxy, `stream-${CHUNKS}-0`, true);
    const count = events.split('"content":').length - 1;
    if (count < CHUNKS || !events.includes('data: [DONE]'))
      throw new Error(`it passes ${count} of a stream's ${CHUNKS} chunks`);
    if (Number.isNaN(await proxy.cpuUs())) throw new Error('this system does not tell its processor time');
  } finally {
    await proxy.stop();
  }
}

async function ask({ port, path, key, headers }: Proxy, model: string, stream: boolean): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      model,
      ...(stream && { stream }),
      messages: [{ role: 'user', content: 'Hello' }],
    }),
    signal: AbortSignal.timeout(20_000),
  });
  const text = await response.text();
  if (response.status !== 200)
    throw new Error(`it answers ${model} with ${response.status} ${text.slice(0, 200)}`);
  return text;
}
