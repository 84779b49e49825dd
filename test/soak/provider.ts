import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';

import { type AnswerPlan, type Plan, TOKENS_A_PIECE } from './plan.ts';
import type { ReportedUsage } from './prices.ts';

/** One request as the provider saw it. */
export interface Attempt {
  readonly requestId: string;
  /** Of the plan; undefined where the body did not arrive. */
  n?: number;
  readonly receivedAt: number;
  /**
   * `whole`: all was written, usage included; `cut` and `reset`: closed by the provider in mid-answer, by FIN or by
   * RST, which may take the last bytes with it; `aborted`: closed by the gateway.
   */
  outcome: 'running' | 'refused' | 'whole' | 'cut' | 'reset' | 'aborted';
  /** What was told of a whole answer. */
  usage?: ReportedUsage;
  /** Characters of the answer that were written. */
  written: number;
  endedAt?: number;
}

export interface SoakProvider {
  readonly baseURL: string;
  /** Request id of a gateway -> what came of it, one after the other. */
  readonly attempts: ReadonlyMap<string, readonly Attempt[]>;
  expect(plan: Plan): void;
  close(): Promise<void>;
}

/** The header in which gateways tell the id that they know a request by. */
export const REQUEST_ID_HEADER = 'x-soak-request';

/** Answers each request by its plan, and knows of each what it was sent and what it told. */
export async function startSoakProvider(): Promise<SoakProvider> {
  const plans = new Map<number, Plan>();
  const attempts = new Map<string, Attempt[]>();
  const sockets = new Set<Socket>();

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const requestId = String(request.headers[REQUEST_ID_HEADER]);
    const attempt: Attempt = { requestId, receivedAt: Date.now(), outcome: 'running', written: 0 };
    const earlier = attempts.get(requestId) ?? [];
    attempts.set(requestId, [...earlier, attempt]);
    response.on('error', () => {});
    response.once('close', () => {
      attempt.endedAt = Date.now();
      if (attempt.outcome === 'running') attempt.outcome = 'aborted';
    });
    const body = await text(request).catch(() => '');
    const plan = plans.get(Number(/soak-(\d+)\. /.exec(body)?.[1]));
    if (!plan) return void response.destroy();
    attempt.n = plan.n;
    await answer(response, attempt, limited(plan, body), earlier.length);
  };
  const server = createServer((request, response) => void serve(request, response));
  server.keepAliveTimeout = 0;
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    attempts,
    expect: (plan) => void plans.set(plan.n, plan),
    close: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}

/** The plan as far as the request's own limit goes, which its gateway may have lowered. */
function limited(plan: Plan, body: string): Plan {
  const { max_tokens: most = Infinity } = JSON.parse(body) as { readonly max_tokens?: number };
  const { pieces, sentPieces, usage } = plan.answer;
  const completion = Math.min(usage.completion, most);
  if (completion === usage.completion) return plan;
  const fitting = pieces.slice(0, Math.ceil(completion / TOKENS_A_PIECE));
  const answer = {
    ...plan.answer,
    pieces: fitting,
    sentPieces: Math.min(sentPieces, fitting.length),
    usage: { ...usage, completion },
  };
  return { ...plan, answer };
}

/** @param earlier - how often it was asked the same before, by the same request */
async function answer(
  response: ServerResponse,
  attempt: Attempt,
  { answer: planned, stream }: Plan,
  earlier: number,
): Promise<void> {
  if (planned.kind === 'silent') return;
  await pause(planned.headMs);
  if (response.destroyed) return;
  if (planned.kind === 'refused' && earlier < planned.refusals) {
    attempt.outcome = 'refused';
    response.writeHead(500, { 'content-type': 'application/json', 'retry-after-ms': '50' });
    response.end('{"error":{"message":"busy","type":"server_error","param":null,"code":null}}');
    return;
  }
  await (stream ? answerStream(response, attempt, planned) : answerJson(response, attempt, planned));
}

async function answerStream(response: ServerResponse, attempt: Attempt, planned: AnswerPlan): Promise<void> {
  const { kind, pieces, gapMs, usage } = planned;
  const sent = kind === 'cut' || kind === 'reset' ? pieces.slice(0, planned.sentPieces) : pieces;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
  for (const piece of sent) {
    await pause(gapMs);
    if (response.destroyed) return;
    attempt.written += piece.length;
    response.write(event({ choices: [{ index: 0, delta: { content: piece }, finish_reason: null }] }));
  }
  if (kind === 'cut' || kind === 'reset') return breakOff(response, attempt, kind);
  attempt.outcome = 'whole';
  attempt.usage = usage;
  response.write(event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }));
  response.end(`${event({ choices: [], usage: wireUsage(usage) })}data: [DONE]\n\n`);
}

async function answerJson(response: ServerResponse, attempt: Attempt, planned: AnswerPlan): Promise<void> {
  const { kind, pieces, gapMs, usage } = planned;
  const content = pieces.join('');
  const message = { role: 'assistant', content };
  const body = JSON.stringify({
    id: 'chatcmpl-soak',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'soak-model',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: wireUsage(usage),
  });
  await pause(gapMs * pieces.length);
  if (response.destroyed) return;
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
  if (kind === 'cut' || kind === 'reset') {
    const characters = Math.floor((content.length * planned.sentPieces) / pieces.length);
    response.write(body.slice(0, body.indexOf(content) + characters));
    attempt.written = characters;
    await pause(20);
    return breakOff(response, attempt, kind);
  }
  attempt.written = content.length;
  attempt.outcome = 'whole';
  attempt.usage = usage;
  response.end(body);
}

function breakOff(response: ServerResponse, attempt: Attempt, kind: 'cut' | 'reset'): void {
  attempt.outcome = kind;
  if (kind === 'reset') response.socket?.resetAndDestroy();
  else response.socket?.end();
}

function event(fields: object): string {
  const head = { id: 'chatcmpl-soak', object: 'chat.completion.chunk', created: 1_700_000_000 };
  return `data: ${JSON.stringify({ ...head, model: 'soak-model', ...fields })}\n\n`;
}

function wireUsage({ prompt, cached, completion }: ReportedUsage): object {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached },
  };
}
