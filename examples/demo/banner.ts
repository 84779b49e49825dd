import { styleText } from 'node:util';
import type { ModelOptions } from 'chat-completions-router';

export interface BannerFacts {
  /** Where the router is mounted, as `http://localhost:8787/v1`. */
  readonly baseURL: string;
  readonly apiKey: string;
  /** USD, as the router says it: `5.00`. */
  readonly balance: string;
  readonly models: Readonly<Record<string, ModelOptions>>;
}

/** Longer lists are cut: an upstream may have hundreds. */
const MODELS_SHOWN = 15;

/** What the demo prints at its start. The commands stand at the margin, so that they can be copied whole. */
export function banner({ baseURL, apiKey, balance, models }: BannerFacts): string {
  return `
  ${bold('chat-completions-router')} is listening.

  ${dim('Address')}   ${bold(baseURL)}
  ${dim('API key')}   ${bold(apiKey)}   ${dim('a fresh one at each start')}
  ${dim('Credits')}   ${bold(`$${balance}`)}

  ${dim('Models')}    ${dim('in USD per million tokens')}
${modelLines(models).join('\n')}

  ${dim('Paste one of these into a second terminal, in the same folder.')}

${heading('A story, streamed, with curl:')}

${curl({ baseURL, apiKey })}

${heading('The same with the openai package:')}

${client({ baseURL, apiKey })}

${heading('What is left of the credits:')}

curl ${baseURL}/credits -H 'authorization: Bearer ${apiKey}'

  ${dim('Ctrl-C ends the demo.')}
`;
}

function modelLines(models: BannerFacts['models']): string[] {
  const entries = Object.entries(models);
  const shown = entries.slice(0, MODELS_SHOWN);
  const width = Math.max(...shown.map(([id]) => id.length));
  const lines = shown.map(([id, { pricing }]) => `            ${id.padEnd(width)}   ${priceOf(pricing)}`);
  const more = entries.length - shown.length;
  return more > 0 ? [...lines, `            … and ${more} more: GET /v1/models`] : lines;
}

function curl({ baseURL, apiKey }: Pick<BannerFacts, 'baseURL' | 'apiKey'>): string {
  const body = {
    model: 'demo/parrot',
    stream: true,
    messages: [{ role: 'user', content: 'Tell me a story about a ship' }],
  };
  return `curl -N ${baseURL}/chat/completions \\
  -H 'authorization: Bearer ${apiKey}' -H 'content-type: application/json' \\
  -d '${JSON.stringify(body)}'`;
}

function client({ baseURL, apiKey }: Pick<BannerFacts, 'baseURL' | 'apiKey'>): string {
  return `npx node --input-type=module <<'END'
import OpenAI from 'openai';
const openai = new OpenAI({ baseURL: '${baseURL}', apiKey: '${apiKey}' });
const messages = [{ role: 'user', content: 'Tell me a story about a ship' }];
const stream = await openai.chat.completions.create({ model: 'demo/parrot', messages, stream: true });
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '\\n');
END`;
}

function priceOf(pricing: ModelOptions['pricing']): string {
  if (typeof pricing === 'string') return pricing;
  return 'reported' in pricing ? 'as reported' : `${pricing.input} in · ${pricing.output} out`;
}

/** Colours are left out by themselves where stdout is no terminal, or NO_COLOR is set. */
function bold(text: string): string {
  return styleText('bold', text);
}

function dim(text: string): string {
  return styleText('dim', text);
}

function heading(text: string): string {
  return `  ${styleText('cyan', text)}`;
}
