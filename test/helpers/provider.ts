import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

import {
  chunk,
  DONE,
  type ReceivedRequest,
  respond,
  type Script,
  startFakeProvider,
} from '../../src/testing.ts';

export { DONE, type ReceivedRequest, type Script };

/** The fake provider as our own tests like it: one script at a time, told by assignment. */
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
  const fake = await startFakeProvider();
  fake.answer((response, request) => provider.script(response, request));
  const provider: Provider = {
    baseURL: fake.baseURL,
    received: fake.requests,
    script,
    next: () => fake.nextRequest(),
    openSockets: () => fake.openConnections,
    connections: () => fake.connections,
    close: () => fake.close(),
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
  return chunk({ id: 'chatcmpl-1', model: 'upstream-model', ...fields });
}

export function text(content: string, finishReason: string | null = null): string {
  return event({ choices: [{ index: 0, delta: { content }, finish_reason: finishReason }] });
}

export const USAGE_EVENT: string = event({ choices: [], usage: USAGE });

/** A whole stream that a provider could have sent. */
export const STREAM: readonly string[] = [
  event({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] }),
  text('Hello'),
  text(' there'),
  text('.', 'stop'),
  USAGE_EVENT,
  DONE,
];

/** What OpenAI sends of a stream where it was asked for usage: each chunk has a `usage`, of null until the last. */
export function withNullUsage(events: readonly string[]): string[] {
  return events.map((each) =>
    each.includes('"usage":') ? each : each.replace(/}\n\n$/, ',"usage":null}\n\n'),
  );
}

export function answerJson(body: string, status = 200, headers: OutgoingHttpHeaders = {}): Script {
  return respond(status, body, { 'content-type': 'application/json', ...headers });
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

export function beginStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
