/**
 * A small server that speaks OpenAI's Chat Completions and needs no model: a
 * parrot, which repeats what it hears. All examples use it as a provider.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { answer } from './answer.ts';
import { completion, eventStream } from './completion.ts';
import { ParrotError } from './errors.ts';
import { CONTEXT_WINDOW, countPromptTokens, MODEL, readRequest } from './request.ts';

export interface ParrotOptions {
  /** Port on 127.0.0.1; 0 takes any that is free. @default 0 */
  readonly port?: number;
  /** Time between two tokens of a stream. @default 40 */
  readonly chunkMs?: number;
  /** Whether the process may end while the parrot is there. @default false */
  readonly background?: boolean;
}

export interface Parrot {
  /** Up to and including the version, as `http://127.0.0.1:49152/v1`. */
  readonly baseURL: string;
  /** Streams being sent at this moment. */
  readonly speaking: number;
  close(): Promise<void>;
}

export async function startParrot({
  port = 0,
  chunkMs = 40,
  background = false,
}: ParrotOptions = {}): Promise<Parrot> {
  let speaking = 0;
  const server = createServer((request, response) => {
    respond(request, response).catch((error: unknown) => refuse(response, error));
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  if (background) server.unref();

  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The parrot has no port.');

  return {
    baseURL: `http://127.0.0.1:${address.port}/v1`,
    get speaking() {
      return speaking;
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    switch (`${request.method} ${request.url}`) {
      case 'GET /v1/models':
        return sendJson(response, 200, { object: 'list', data: [model] });
      case `GET /v1/models/${MODEL}`:
        return sendJson(response, 200, model);
      case 'POST /v1/chat/completions':
        return complete(await text(request), response);
      default:
        throw new ParrotError(
          404,
          `${request.method} ${request.url} is not served here.`,
          null,
          'unknown_url',
        );
    }
  }

  async function complete(body: string, response: ServerResponse): Promise<void> {
    const params = readRequest(body);
    const promptTokens = countPromptTokens(params);
    if (promptTokens > CONTEXT_WINDOW) {
      const message = `The prompt has ${promptTokens} tokens; the parrot remembers ${CONTEXT_WINDOW}.`;
      throw new ParrotError(400, message, 'messages', 'context_length_exceeded');
    }
    const choices = answer(params);
    if (!params.stream) return sendJson(response, 200, completion(params, choices));

    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    speaking++;
    try {
      await pipeline(eventStream(params, choices, chunkMs), response);
    } finally {
      speaking--;
    }
  }
}

const model = { id: MODEL, object: 'model', created: 1_767_225_600, owned_by: 'parrot' };

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Answers an error, unless the client has disconnected. */
function refuse(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) return;
  const refusal =
    error instanceof ParrotError
      ? error
      : new ParrotError(500, `The parrot fell off its perch: ${String(error)}`);
  sendJson(response, refusal.status, refusal);
}
