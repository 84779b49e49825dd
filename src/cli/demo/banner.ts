import { existsSync } from 'node:fs';
import { styleText } from 'node:util';

import type { ModelOptions } from '../../options/model-options.ts';

/** An account of the demo: its API key, and its balance in USD. */
export interface DemoAccount {
  readonly apiKey: string;
  readonly balance: string;
}

export interface BannerFacts {
  /** Where the router is mounted, as `http://127.0.0.1:8787/v1`. */
  readonly baseURL: string;
  readonly account: DemoAccount;
  /** With too little for a long answer. */
  readonly poorAccount: DemoAccount;
  readonly models: Readonly<Record<string, ModelOptions>>;
}

/** Longer lists are cut: an upstream may have hundreds. */
const MODELS_SHOWN = 15;

/** What the demo prints at its start. The commands have no indentation, so that they can be copied as they are. */
export function banner({ baseURL, account, poorAccount, models }: BannerFacts): string {
  const { apiKey, balance } = account;
  return `
  ${bold('chat-completions-router')} is listening.

  ${dim('Address')}   ${bold(baseURL)}
  ${dim('API key')}   ${bold(apiKey)}   ${dim('a new one at each start')}
  ${dim('Credits')}   ${bold(`$${balance}`)}

  ${dim('Models')}    ${dim('in USD per million tokens')}
${modelLines(models).join('\n')}

  ${dim('Paste these into a second terminal.')}

${heading('A streamed answer, with curl:')}

${curl(
  '-N',
  { baseURL, apiKey },
  {
    ...asking('Tell me a story about a ship'),
    stream: true,
  },
)}

${heading('The same with the openai package:')}

${client({ baseURL, apiKey })}

${heading('The credits that are left:')}

curl ${baseURL}/credits -H 'authorization: Bearer ${apiKey}'

  ${dim('A second account has almost nothing:')}

  ${dim('API key')}   ${bold(poorAccount.apiKey)}
  ${dim('Credits')}   ${bold(`$${poorAccount.balance}`)}

${heading('Its answer is limited to what it can pay: see the header x-ccr-max-tokens.')}

${curl('-i', { baseURL, apiKey: poorAccount.apiKey }, asking('Tell me a story'))}

${heading('It cannot pay for 100 answers at once: status 402.')}

${curl('-i', { baseURL, apiKey: poorAccount.apiKey }, { ...asking('Tell me a story'), n: 100 })}

  ${dim('Ctrl-C ends the demo, with its keys and credits.')}
`;
}

interface Caller {
  readonly baseURL: string;
  readonly apiKey: string;
}

function modelLines(models: BannerFacts['models']): string[] {
  const entries = Object.entries(models);
  const shown = entries.slice(0, MODELS_SHOWN);
  const width = Math.max(...shown.map(([id]) => id.length));
  const lines = shown.map(([id, { pricing }]) => `            ${id.padEnd(width)}   ${priceOf(pricing)}`);
  const more = entries.length - shown.length;
  return more > 0 ? [...lines, `            … and ${more} more: GET /v1/models`] : lines;
}

function asking(content: string): object {
  return { model: 'demo/parrot', messages: [{ role: 'user', content }] };
}

function curl(option: string, { baseURL, apiKey }: Caller, body: object): string {
  return `curl ${option} ${baseURL}/chat/completions \\
  -H 'authorization: Bearer ${apiKey}' -H 'content-type: application/json' \\
  -d '${JSON.stringify(body)}'`;
}

/** The package that the second command uses. */
const CLIENT = 'openai';

function client({ baseURL, apiKey }: Caller): string {
  // A clone has the package, and a Node of its own: the machine's may be too old.
  const install = existsSync(`node_modules/${CLIENT}`) ? '' : `npm install ${CLIENT} && `;
  const node = existsSync('node_modules/node') ? 'npx node' : 'node';
  return `${install}${node} --input-type=module <<'END'
import OpenAI from ${JSON.stringify(CLIENT)};
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
