import * as http from 'node:http';
import * as https from 'node:https';

/**
 * Connections to providers, kept alive, as many as there are requests.
 *
 * httpxy's own agents stop at 256 sockets and queue the rest in silence. A free
 * socket goes before a provider would close it: after `KEEP_MS`, or in the time
 * that the provider announces, if that is shorter.
 */
export class Agents {
  readonly #byOrigin = new Map<string, http.Agent>();
  /** URLs write their origin anew each time that they are asked. */
  readonly #byUrl = new WeakMap<URL, http.Agent>();

  for(url: URL): http.Agent {
    let agent = this.#byUrl.get(url);
    if (!agent) {
      const { origin, protocol } = url;
      agent = this.#byOrigin.get(origin) ?? (protocol === 'https:' ? new HttpsAgent() : new HttpAgent());
      this.#byOrigin.set(origin, agent);
      this.#byUrl.set(url, agent);
    }
    return agent;
  }

  close(): void {
    for (const agent of this.#byOrigin.values()) agent.destroy();
  }
}

const KEEP_ALIVE_MS = 30_000;

const AGENT_OPTIONS: http.AgentOptions = {
  keepAlive: true,
  maxSockets: Infinity,
  maxFreeSockets: 1024,
  timeout: KEEP_ALIVE_MS,
  scheduling: 'lifo',
};

/** All of an agent's connections go to one origin: nothing of a request tells them apart, and no name is written for it. */
const NAME = 'origin';

class HttpAgent extends http.Agent {
  constructor() {
    super(AGENT_OPTIONS);
  }

  override getName(): string {
    return NAME;
  }
}

class HttpsAgent extends https.Agent {
  constructor() {
    super(AGENT_OPTIONS);
  }

  override getName(): string {
    return NAME;
  }
}
