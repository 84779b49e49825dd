import { readFileSync } from 'node:fs';

import { type ClientProgram, describeClient } from '../helpers/client-contract.ts';

const FOLDER = new URL('.', import.meta.url).pathname;

/** What every client here offers. */
const COMPLETIONS = [
  '401',
  '402',
  '404',
  'abort',
  'completion',
  'stream',
  'stream_usage',
  'structured',
  'tool',
  'tool_streamed',
];
const MODELS = ['model', 'models'];

function program(
  file: string,
  name: string,
  packages: readonly string[],
  checks: readonly string[],
): ClientProgram {
  return {
    name,
    version: packages.map(versionOf).join(' '),
    command: [process.execPath, file, ...packages],
    cwd: FOLDER,
    checks,
  };
}

function versionOf(name: string): string {
  const text = readFileSync(`${FOLDER}node_modules/${name}/package.json`, 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

for (const major of [4, 5, 6, 7]) {
  describeClient(program('openai.mjs', 'openai', [`openai-${major}`], [...COMPLETIONS, ...MODELS]));
}
for (const [major, minor] of [
  [5, 1],
  [6, 2],
  [7, 3],
]) {
  const sdk = `ai-${major}`;
  describeClient(
    program('ai-sdk.mjs', 'AI SDK, openai-compatible', [sdk, `openai-compatible-${minor}`], COMPLETIONS),
  );
  describeClient(
    program('ai-sdk.mjs', 'AI SDK, OpenRouter', [sdk, `openrouter-provider-${minor}`], COMPLETIONS),
  );
}
describeClient(
  program(
    'openrouter-sdk.mjs',
    '@openrouter/sdk',
    ['@openrouter/sdk'],
    [...COMPLETIONS, ...MODELS, 'credits', 'generation', '404_generation'],
  ),
);
describeClient(
  program(
    'gateway.mjs',
    '@ai-sdk/gateway',
    ['@ai-sdk/gateway'],
    [
      '401',
      '404_generation',
      '404_language_model',
      '404_models',
      'credits',
      'generation',
      'generation_abandoned',
      'generation_streamed',
    ],
  ),
);
