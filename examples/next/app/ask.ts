/** The chat, in the browser: the AI SDK asks the router at /v1, with a session as its API key. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  type ChatTransport,
  convertToModelMessages,
  createUIMessageStream,
  streamText,
  toUIMessageStream,
  type UIMessage,
} from 'ai';

/** After its text, a message says what is left of the credits, in USD. */
export type ChatMessage = UIMessage<unknown, { balance: string }>;

interface Session {
  readonly session: string;
  readonly expiresAt: string;
}

const SPARE_MS = 60_000;
let known: Session | undefined;
/** Of the last answer: `x-request-id`. */
let lastRequest = '';

async function session(): Promise<string> {
  if (!known || Date.parse(known.expiresAt) < Date.now() + SPARE_MS) {
    const response = await fetch('/api/session', { method: 'POST' });
    if (!response.ok) throw new Error(await response.text());
    const made: Session = await response.json();
    known = made;
  }
  return known.session;
}

export function chatTransport(model: string): ChatTransport<ChatMessage> {
  return {
    async sendMessages({ messages, abortSignal }) {
      const router = createOpenAICompatible({
        name: 'router',
        baseURL: `${location.origin}/v1`,
        apiKey: await session(),
        fetch: async (url, init) => {
          const response = await fetch(url, init);
          lastRequest = response.headers.get('x-request-id') ?? '';
          return response;
        },
      });
      const prompt = await convertToModelMessages(messages);
      return createUIMessageStream<ChatMessage>({
        onError: explain,
        execute: async ({ writer }) => {
          const { stream, finishReason } = streamText({
            model: router(model),
            messages: prompt,
            ...(abortSignal && { abortSignal }), // who presses Stop pays for what was said until then
            onError: () => {},
          });
          writer.merge(toUIMessageStream({ stream, onError: explain }));
          await Promise.allSettled([finishReason]);
          writer.write({ type: 'data-balance', data: await balance() });
        },
      });
    },
    reconnectToStream: async () => null,
  };
}

/** What the account has left, in USD, once the last answer is charged. */
export async function balance(): Promise<string> {
  const headers = { authorization: `Bearer ${await session()}` };
  while (await isRunning(lastRequest, headers));
  const account: { balance: string } = await (await fetch('/api/balance')).json();
  return account.balance;
}

/** Waits a second for the charge. */
async function isRunning(request: string, headers: Record<string, string>): Promise<boolean> {
  const generation = await fetch(`/v1/generation?id=${request}`, { headers });
  const { error }: { error?: { code: string } } = await generation.json();
  return error?.code === 'generation_running';
}

/** In the router's own words, which are made for clients: that a request could cost more than is left, for one. */
function explain(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.';
}
