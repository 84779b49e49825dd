/**
 * What the examples share, so that each runs on every machine: a provider that needs no key, whichever others
 * this machine can reach, and an account with $5.00. Your own app has its own in their place.
 */
import type { Server } from 'node:net';
import type { ChatCompletionsRouter } from 'chat-completions-router';
import { startParrot } from '../parrot/server.ts';
import { banner } from './banner.ts';
import { type Found, findProviders } from './providers.ts';

const parrot = await startParrot({ background: true });
const found = await findProviders(process.env);

export const port = Number(process.env['PORT'] ?? 8787);

export const providers: Found['providers'] = {
  // It stops writing when its client disconnects: nothing more is charged.
  parrot: { baseURL: parrot.baseURL, onDisconnect: 'abort' },
  ...found.providers, // e.g. openai: { apiKey: () => process.env.OPENAI_API_KEY }
};

export const models: Found['models'] = {
  'demo/parrot': {
    name: 'Parrot',
    description: 'Repeats what you say, at a human pace.',
    targets: ['parrot/parrot-1'],
    pricing: { input: '0.50', output: '1.50' }, // USD per million tokens
    contextWindow: 32_768,
    maxOutputTokens: 4_096,
  },
  ...found.models,
};

/** Makes an account with a key and $5.00, and prints them, with what to paste next. */
export async function announce(router: ChatCompletionsRouter, at: Server | number): Promise<void> {
  // An account is made by its first key, or its first credits.
  const { key } = await router.keys.create({ account: 'demo', name: 'demo' });
  await router.credits.grant('demo', '5.00', { id: 'welcome' }); // the same id again grants nothing
  const { balance } = await router.credits.balance('demo');
  const baseURL = `http://localhost:${typeof at === 'number' ? at : listening(at)}/v1`;
  console.log(banner({ baseURL, apiKey: key, balance, models }));
}

/** The port that a server has. */
export function listening(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The server has no port.');
  return address.port;
}
