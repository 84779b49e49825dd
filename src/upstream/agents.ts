import * as http from 'node:http';
import * as https from 'node:https';

/** Keep-alive connections to providers, without a limit on their number.
 *
 * httpxy's own agents silently queue requests beyond 256 sockets. An idle
 * socket is closed before a provider would close it: after `KEEP_ALIVE_MS`, or
 * the time that the provider announces, if that is shorter.
 */
export class Agents {
  readonly #byOrigin = new Map<string, http.Agent>();
  /** Avoids `URL.origin`, which builds its string on each read. */
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

/** All connections of an agent go to one origin, so one constant pool name serves all requests. */
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
