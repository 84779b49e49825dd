import { startParrot } from '../../src/cli/demo/parrot/server.ts';
import { type Gateway, PRICING, startGateway } from './gateway.ts';

/** A model that answers what it is asked, calls tools and fills schemas, behind a router. */
export const PARROT = 'demo/parrot';

/** A gateway before the parrot, for clients that want sensible answers rather than scripted bytes. */
export async function startParrotGateway(): Promise<Gateway> {
  const parrot = await startParrot({ chunkMs: 5 });
  const gateway = await startGateway({
    providers: { parrot: { baseURL: parrot.baseURL } },
    models: {
      [PARROT]: {
        targets: ['parrot/parrot-1'],
        pricing: PRICING,
        contextWindow: 32_768,
        maxOutputTokens: 500,
      },
    },
  });
  return {
    ...gateway,
    close: async () => {
      await gateway.close();
      await parrot.close();
    },
  };
}

/** In USD, at the prices of `PRICING`. */
export function costOf(promptTokens: number, completionTokens: number): number {
  return (promptTokens * 1000 + completionTokens * 3000) / 1e9;
}

/** Code of the docs, which has an address and a model of its own, as it runs here. */
export function asShown(source: string, baseURL: string): string {
  return source
    .replaceAll('http://localhost:8787/v1', baseURL)
    .replaceAll(/(?<=["'/])openai\/gpt-4o-mini(?=["'])/g, PARROT);
}
