/**
 * What the examples share, so that each runs on every machine: a provider that needs no key, the real providers that
 * this machine can reach, and an account with $5.00. Your own app has its own in their place.
 */
import type { Server } from 'node:net';
import type { ChatCompletionsRouter } from 'chat-completions-router';
// What `npx chat-completions-router demo` serves.
import { announce as announceAt } from '../../src/cli/demo/accounts.ts';
import { findDemoProviders } from '../../src/cli/demo/providers.ts';

export const port = Number(process.env['PORT'] ?? 8787);

/** E.g. `openai: { apiKey: () => process.env.OPENAI_API_KEY }`, and models with their prices. */
export const { providers, models } = await findDemoProviders(process.env);

/** Makes an account with a key and $5.00, and prints them, with commands to paste. */
export async function announce(router: ChatCompletionsRouter, at: Server | number): Promise<void> {
  const baseURL = `http://127.0.0.1:${typeof at === 'number' ? at : listening(at)}/v1`;
  await announceAt(router, { baseURL, models });
}

/** The port that a server has. */
export function listening(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The server has no port.');
  return address.port;
}
