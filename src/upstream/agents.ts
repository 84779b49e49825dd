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
  readonly #http = new http.Agent(AGENT_OPTIONS);
  readonly #https = new https.Agent(AGENT_OPTIONS);

  for(origin: URL): http.Agent {
    return origin.protocol === 'https:' ? this.#https : this.#http;
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }
}

const KEEP_MS = 30_000;

const AGENT_OPTIONS: http.AgentOptions = {
  keepAlive: true,
  maxSockets: Infinity,
  maxFreeSockets: 1024,
  timeout: KEEP_MS,
  scheduling: 'lifo',
};
