import { once } from 'node:events';
import * as http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** A request as a provider received it. */
export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  /** Resolves when the router's side of the connection closes before the answer is complete; ms since the epoch. */
  readonly aborted: Promise<number>;
}

export type Script = (response: http.ServerResponse, request: ReceivedRequest) => unknown;

/** A provider on loopback that does what a script says: real sockets, for what sockets do. */
export interface Provider {
  readonly baseURL: string;
  readonly received: ReceivedRequest[];
  /** What the next requests are answered with. */
  script: Script;
  /** The next request that arrives. */
  next(): Promise<ReceivedRequest>;
  openSockets(): number;
  connections(): number;
  close(): Promise<void>;
}

export async function startProvider(script: Script = answerJson(completionBody())): Promise<Provider> {
  const sockets = new Set<Socket>();
  const waiting: ((request: ReceivedRequest) => void)[] = [];
  let connections = 0;

  const server = http.createServer(async (request, response) => {
    const aborted = new Promise<number>((resolve) => {
      response.once('close', () => {
        if (!response.writableFinished) resolve(Date.now());
      });
    });
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return; // The router went away in the middle of its request.
    }
    const { method = '', url = '', headers, rawHeaders } = request;
    const received = { method, url, headers, rawHeaders, body: Buffer.concat(chunks), aborted };
    provider.received.push(received);
    waiting.shift()?.(received);
    await provider.script(response, received);
  });
  server.on('connection', (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  const provider: Provider = {
    baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    received: [],
    script,
    next: () => new Promise((resolve) => waiting.push(resolve)),
    openSockets: () => sockets.size,
    connections: () => connections,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return provider;
}

export const USAGE = { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 };

export function completionBody(fields: Record<string, unknown> = {}): string {
  return JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'upstream-model',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello there.' }, finish_reason: 'stop' }],
    usage: USAGE,
    ...fields,
  });
}

/** One event of a completion's stream. */
export function event(fields: Record<string, unknown>): string {
  const chunk = {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1_700_000_000,
    model: 'upstream-model',
  };
  return `data: ${JSON.stringify({ ...chunk, ...fields })}\n\n`;
}

export function text(content: string, finishReason: string | null = null): string {
  return event({ choices: [{ index: 0, delta: { content }, finish_reason: finishReason }], usage: null });
}

export const USAGE_EVENT: string = event({ choices: [], usage: USAGE });
export const DONE = 'data: [DONE]\n\n';

/** A whole stream that OpenAI could have sent. */
export const STREAM: readonly string[] = [
  event({
    choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }],
    usage: null,
  }),
  text('Hello'),
  text(' there'),
  text('.', 'stop'),
  USAGE_EVENT,
  DONE,
];

export function answerJson(body: string, status = 200, headers: http.OutgoingHttpHeaders = {}): Script {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  };
}

/** Sends the events one by one, `gapMs` apart, and ends. */
export function answerStream(events: readonly string[], gapMs = 0): Script {
  return async (response) => {
    beginStream(response);
    for (const piece of events) {
      if (gapMs > 0) await sleep(gapMs);
      if (response.destroyed) return;
      response.write(piece);
    }
    response.end();
  };
}

export function beginStream(response: http.ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
