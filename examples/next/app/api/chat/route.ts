/** The page's own chat: the AI SDK, through the same router, in this process. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  convertToModelMessages,
  createUIMessageStream,
  createUIMessageStreamResponse,
  streamText,
  toUIMessageStream,
  type UIMessage,
} from 'ai';
import { ACCOUNT, MODEL, router } from '../../../lib/router';

/** After its text, a message says what is left of the credits, in USD. */
export type ChatMessage = UIMessage<unknown, { balance: string }>;

/** Of answers that are still being sent, or have just ended. */
const charges = new Set<Promise<void>>();

const provider = createOpenAICompatible({
  name: 'router',
  baseURL: 'http://router/v1', // goes nowhere: see `fetch`
  apiKey: process.env['ROUTER_API_KEY'] ?? '', // one like every customer's, but of this page
  fetch: async (url, init) => {
    const request = new Request(url, init);
    const response = await router.fetch(request); // in this process, not over the network
    const charge = router.settled(request).finally(() => charges.delete(charge));
    charges.add(charge);
    return response;
  },
});

export async function POST(request: Request): Promise<Response> {
  const { messages }: { messages: ChatMessage[] } = await request.json();
  const stream = createUIMessageStream<ChatMessage>({
    onError: explain,
    execute: async ({ writer }) => {
      const { stream, finishReason } = streamText({
        model: provider(MODEL),
        messages: await convertToModelMessages(messages),
        abortSignal: request.signal, // whoever presses Stop pays for what was said until then
        onError: () => {},
      });
      writer.merge(toUIMessageStream({ stream, onError: explain }));
      await Promise.allSettled([finishReason]);
      writer.write({ type: 'data-balance', data: await balance() });
    },
  });
  return createUIMessageStreamResponse({ stream });
}

/** What is left, for a page whose stream was stopped before it could say so. */
export async function GET(): Promise<Response> {
  return new Response(await balance());
}

async function balance(): Promise<string> {
  await Promise.all(charges);
  return (await router.credits.balance(ACCOUNT)).balance;
}

/** In the router's own words, which are made for clients: that a request could cost more than is left, for one. */
function explain(error: unknown): string {
  return error instanceof Error ? error.message : 'Something went wrong.';
}
