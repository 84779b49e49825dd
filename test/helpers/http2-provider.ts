import { once } from 'node:events';
import type * as http from 'node:http';
import * as http2 from 'node:http2';
import * as https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';

import { type Authority, type Certificate, createAuthority } from './certificates.ts';

export type Answer = (stream: http2.ServerHttp2Stream, session: http2.ServerHttp2Session) => void;

/** A provider with `https:` and HTTP/2. */
export interface Http2Provider {
  readonly baseURL: string;
  /** The authority of its certificate, as PEM. */
  readonly ca: string;
  /** What the next requests are answered with. */
  answer: Answer;
  /** All sessions that there were. */
  readonly sessions: http2.ServerHttp2Session[];
  /** All of their sockets. */
  readonly sockets: Socket[];
  /** Requests that came, over HTTP/1.1 included. */
  requests: number;
  close(): Promise<void>;
}

/** Of this process, as making one takes a while. */
let authority: Authority | undefined;
let certificate: Certificate | undefined;

export async function startHttp2Provider(
  answer: Answer,
  settings: http2.Settings = {},
  onlyHttp1 = false,
): Promise<Http2Provider> {
  authority ??= createAuthority();
  certificate ??= authority.issue('DNS:localhost,IP:127.0.0.1');
  const options = { ...certificate, settings, allowHTTP1: true };
  const server = onlyHttp1 ? https.createServer(options) : http2.createSecureServer(options);
  const provider: Http2Provider = {
    baseURL: '',
    ca: authority.ca,
    answer,
    sessions: [],
    sockets: [],
    requests: 0,
    close: async () => {
      for (const session of provider.sessions) session.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  server.on('secureConnection', (socket: Socket) => {
    provider.sockets.push(socket);
  });
  server.on('session', (session: http2.ServerHttp2Session) => {
    provider.sessions.push(session);
    session.on('error', () => {});
    session.on('stream', (stream) => {
      provider.requests += 1;
      stream.on('error', () => {});
      stream.resume();
      provider.answer(stream, session);
    });
  });
  // Over HTTP/1.1 alone: HTTP/2 has the event `stream`.
  server.on('request', (request: http.IncomingMessage, response: http.ServerResponse) => {
    if (request.httpVersionMajor > 1) return;
    provider.requests += 1;
    response.setHeader('content-type', 'application/json');
    request.resume().once('end', () => response.end(COMPLETION));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return Object.assign(provider, { baseURL: `https://localhost:${port}/v1` });
}

export const COMPLETION = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** Answers with a completion. */
export const answerCompletion: Answer = (stream) => {
  stream.respond({ ':status': 200, 'content-type': 'application/json' });
  stream.end(COMPLETION);
};
