import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { parseJsonConfig } from '../../../src/cli/config/json-config.ts';
import { createChatCompletionsRouter, type ServerConfig } from '../../../src/index.ts';
import { run } from './run-in-process.ts';

/** The fields of the configs in LiteLLM's repository and documentation, in a file of our own. */
const CONFIG = `
model_list:
  - model_name: chat
    litellm_params:
      model: azure/chat-eu
      api_base: https://contoso.openai.azure.com/
      api_version: "2024-10-21"
      api_key: os.environ/AZURE_API_KEY
      rpm: 300
      timeout: 300
    model_info: &priced
      input_cost_per_token: 0.00000015
      output_cost_per_token: 6.0e-7
      cache_read_input_token_cost: 7.5e-8
      max_input_tokens: 128000
      max_output_tokens: 16384
  - model_name: chat
    litellm_params:
      model: gpt-4o-mini
      api_key: os.environ/OPENAI_API_KEY
      rpm: 100
      tpm: "90000"
      max_parallel_requests: 4
  - model_name: small
    litellm_params:
      model: openai/tiny
      api_base: https://llm.example.com/v1
      api_key: sk-secret-in-the-file
      temperature: 0.2
    model_info: {input_cost_per_token: 0, output_cost_per_token: 0}
  - model_name: local/*
    litellm_params: {model: ollama/*, api_base: "http://127.0.0.1:11434"}
    model_info: {input_cost_per_token: 0, output_cost_per_token: 0}
  - model_name: anthropic/*
    litellm_params: {model: anthropic/*, api_key: os.environ/ANTHROPIC_API_KEY}
  - model_name: vectors
    litellm_params: {model: azure/embed, api_key: os.environ/AZURE_API_KEY}
    model_info: {mode: embedding}
  - model_name: pictures
    litellm_params: {model: dall-e-3}
  - model_name: llama
    litellm_params: {model: sagemaker/llama-2, input_cost_per_second: 0.00042}
litellm_settings:
  drop_params: true
  num_retries: 2
  request_timeout: 600
  success_callback: [langfuse]
  fallbacks: [{chat: [small]}]
router_settings:
  routing_strategy: usage-based-routing-v2
  model_group_alias: {gpt-4: chat}
  allowed_fails: 3
  cooldown_time: 30
  redis_host: os.environ/REDIS_HOST
general_settings:
  master_key: sk-1234
  database_url: postgresql://localhost/litellm
`;

/** As GET /key/list?return_full_object=true answers. */
const KEYS = {
  keys: [
    {
      token: 'a'.repeat(64),
      key_name: 'sk-...9kQw',
      key_alias: "it's prod",
      spend: 1.25,
      expires: null,
      models: ['chat', 'small'],
      aliases: {},
      max_budget: 12.5,
      budget_duration: '30d',
      tpm_limit: 90_000,
      rpm_limit: 60,
      max_parallel_requests: 4,
      team_id: 'team one',
      user_id: 'ada',
      metadata: { plan: 'pro', nested: {} },
      blocked: null,
    },
    {
      token: 'b'.repeat(64),
      key_alias: null,
      models: ['all-team-models'],
      max_budget: 3,
      user_id: 'default_user_id',
    },
    { token: 'c'.repeat(64), key_alias: 'old', models: [], expires: '2020-01-01T00:00:00Z', user_id: 'ada' },
    { token: 'd'.repeat(64), key_alias: 'bad', models: [], blocked: true, user_id: 'ada' },
  ],
  total_count: 4,
  current_page: 1,
  total_pages: 1,
};

const VARIABLES = {
  AZURE_API_KEY: 'a',
  OPENAI_API_KEY: 'b',
  ANTHROPIC_API_KEY: 'c',
  LLM_EXAMPLE_COM_API_KEY: 'd',
};

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ccr-litellm-'));
  writeFileSync(join(folder, 'config.yaml'), CONFIG);
  writeFileSync(join(folder, 'keys.json'), JSON.stringify(KEYS));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

function read(name: string): string {
  return readFileSync(join(folder, name), 'utf8');
}

/** The config that a file of LiteLLM becomes, and what the command says. */
async function convert(
  config: object,
  env: Readonly<Record<string, string>> = VARIABLES,
): Promise<{ readonly config: ServerConfig; readonly stdout: string }> {
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  const { code, stdout, stderr } = await run(['init', '--from', 'litellm', 'config.json', '--json'], {
    folder,
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const text = read('chat-completions-router.config.json');
  return { config: parseJsonConfig(text, 'config', env) as ServerConfig, stdout };
}

/** Two deployments of one model. */
function twoDeployments(
  first: { readonly params?: object; readonly info?: object },
  second: { readonly params?: object; readonly info?: object },
): object[] {
  const sold = { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6, max_output_tokens: 1000 };
  return [first, second].map(({ params, info }, n) => ({
    model_name: 'chat',
    litellm_params: { model: `openai/gpt-${n + 1}`, ...params },
    model_info: { ...sold, ...info },
  }));
}

/** Runs the script of keys with another `npx`, of which `$3` is `get` or `create`. */
function runScriptWith(npx: string): string {
  return execFileSync('sh', ['-c', `npx() { ${npx}; }; ${read('litellm-keys.sh')}`], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

/** Runs the script of keys with commands in this process; what they created. */
async function runScript(): Promise<unknown[]> {
  const lines = runScriptWith(String.raw`[ "$3" = create ] && { printf '%s\0' "$@"; echo; }`);
  const created: unknown[] = [];
  for (const line of lines.trimEnd().split('\n')) {
    const { code, stdout, stderr } = await run(line.split('\0').slice(1, -1), { folder, env: VARIABLES });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    created.push(JSON.parse(stdout));
  }
  return created;
}

/** Converts keys; what the command says. */
async function convertKeys(keys: readonly object[]): Promise<string> {
  writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys }));
  const args = ['init', '--from', 'litellm', 'config.yaml', '--keys', 'keys.json', '--json'];
  const { code, stdout } = await run(args, { folder, env: VARIABLES });
  expect(code).toBe(0);
  return stdout;
}

describe('init --from litellm', () => {
  it('writes the models, with their targets, prices and limits', async () => {
    const { code } = await run(['init', '--from', 'litellm', 'config.yaml', '--json'], { folder });
    expect(code).toBe(0);
    const text = read('chat-completions-router.config.json');
    const config = parseJsonConfig(text, 'config', VARIABLES) as ServerConfig;
    expect(config).toMatchObject({
      providers: {
        'azure-deployments': {
          variables: { resource: 'contoso' },
          query: { 'api-version': '2024-10-21' },
          apiKey: 'a',
        },
        openai: { apiKey: 'b' },
        'llm-example-com': { baseURL: 'https://llm.example.com/v1', apiKey: 'd' },
        ollama: { baseURL: 'http://127.0.0.1:11434/v1' },
      },
      models: {
        chat: {
          targets: [
            {
              provider: 'azure-deployments',
              model: 'chat-eu',
              limits: { requestsPerMinute: 300 },
            },
            {
              provider: 'openai',
              model: 'gpt-4o-mini',
              limits: { requestsPerMinute: 100, tokensPerMinute: 90_000, concurrentRequests: 4 },
            },
            { provider: 'llm-example-com', model: 'tiny', pricing: 'free' },
          ],
          pricing: { input: '0.15', output: '0.60', cachedInput: '0.075' },
          contextWindow: 128_000,
          maxOutputTokens: 16_384,
          aliases: ['gpt-4'],
        },
        small: { pricing: 'free' },
        'local/*': { targets: ['ollama/*'], pricing: 'free' },
        'anthropic/*': { targets: ['anthropic/*'], pricing: 'catalog' },
      },
      prices: 'catalog',
      timeouts: { totalMs: 600_000 },
      retries: { perTarget: 2 },
      health: { failures: 4, coolDownMs: 30_000 },
    });
    expect(Object.keys(config.models)).toEqual(['chat', 'small', 'local/*', 'anthropic/*']);
  });

  it('reads versions, regions, projects and headers from the environment', async () => {
    const priced = { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 };
    const env = { API_VERSION: '2025-01-01', REGION: 'eu-west-1', PROJECT: 'p1', LOCATION: 'eu', GATE: 'g1' };
    const { config, stdout } = await convert(
      {
        model_list: [
          {
            model_name: 'azure',
            litellm_params: {
              model: 'azure/chat-eu',
              api_base: 'https://contoso.openai.azure.com',
              api_version: 'os.environ/API_VERSION',
              api_key: 'os.environ/AZURE_API_KEY',
              extra_headers: { 'x-gate': 'os.environ/GATE', 'x-plain': 'plain' },
            },
            model_info: priced,
          },
          {
            model_name: 'bedrock',
            litellm_params: { model: 'bedrock/openai.gpt-oss-20b-1:0', aws_region_name: 'os.environ/REGION' },
            model_info: priced,
          },
          {
            model_name: 'vertex',
            litellm_params: {
              model: 'vertex_ai/gemini-2.0-flash',
              vertex_project: 'os.environ/PROJECT',
              vertex_location: 'os.environ/LOCATION',
            },
            model_info: priced,
          },
        ],
      },
      { ...VARIABLES, ...env, AWS_BEARER_TOKEN_BEDROCK: 'e', VERTEX_ACCESS_TOKEN: 'f' },
    );
    expect(config.providers).toMatchObject({
      'azure-deployments': {
        query: { 'api-version': '2025-01-01' },
        headers: { 'x-gate': 'g1', 'x-plain': 'plain' },
      },
      bedrock: { variables: { region: 'eu-west-1' } },
      vertex: { variables: { project: 'p1', location: 'eu' } },
    });
    for (const name of Object.keys(env)) expect(stdout).toContain(`  ${name}=\n`);
  });

  it('notes what it can not read from the environment, and sends no reference to a provider', async () => {
    const { config, stdout } = await convert({
      model_list: [
        {
          model_name: 'chat',
          litellm_params: {
            model: 'openai/gpt-4o',
            rpm: 'os.environ/RPM',
            temperature: 'os.environ/T',
            seed: null,
          },
        },
        {
          model_name: 'from-outside',
          litellm_params: { model: 'os.environ/MODEL', api_base: 'http://x:1/v1' },
        },
      ],
      litellm_settings: { num_retries: 'os.environ/RETRIES', master_key: 'os.environ/KEY' },
    });
    expect(config.models).toMatchObject({ chat: { targets: ['openai/gpt-4o'] } });
    expect(Object.keys(config.models)).toEqual(['chat']);
    expect(config.retries).toBeUndefined();
    expect(stdout).toContain(
      'litellm_settings.num_retries, litellm_params.rpm, litellm_params.temperature, litellm_params.model: its value is in the environment',
    );
    expect(stdout).toContain('model_list[1] (from-outside): left out: it names no model');
  });

  it('takes prices from where they are given, and not from a null beside them', async () => {
    const { config } = await convert({
      model_list: [
        {
          model_name: 'chat',
          litellm_params: { model: 'openai/gpt-4o', input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 },
          model_info: { input_cost_per_token: null, output_cost_per_token: null },
        },
      ],
    });
    expect(config.models).toMatchObject({ chat: { pricing: { input: '1.00', output: '2.00' } } });
  });

  it('notes groups of models, which a key can not name', async () => {
    const { stdout } = await convert({
      model_list: twoDeployments({ info: { access_groups: ['beta'] } }, {}),
    });
    expect(stdout).toContain('model_info.access_groups: keys are limited to models');
  });

  it('notes a strategy, a model and an alias that it can not convert', async () => {
    const { config, stdout } = await convert({
      model_list: [
        ...twoDeployments({}, {}),
        { model_name: 'small', litellm_params: { model: 'openai/gpt-4o-mini' } },
        { model_name: 4, litellm_params: { model: 'openai/gpt-4o' } },
      ],
      router_settings: { routing_strategy: 'of-tomorrow', model_group_alias: { small: 'chat' } },
    });
    expect(Object.keys(config.models)).toEqual(['chat', 'small']);
    expect(config.models).toMatchObject({ chat: { strategy: 'weighted' } });
    expect(stdout).toContain('routing_strategy: of-tomorrow is not known: targets are chosen by weight\n');
    expect(stdout).toContain('model_list[3] (unnamed): left out: its model_name is no text\n');
    expect(stdout).toContain('model_group_alias small: left out: a model has this ID\n');
  });

  it.each(['simple-shuffle', 'cost-based-routing', 'latency-based-routing'])(
    'notes that fallbacks end the strategy %s',
    async (strategy) => {
      const { config, stdout } = await convert({
        model_list: [
          ...twoDeployments({}, {}),
          { model_name: 'small', litellm_params: { model: 'openai/gpt-4o-mini' } },
        ],
        router_settings: { routing_strategy: strategy, fallbacks: [{ chat: ['small'] }] },
      });
      expect(config.models['chat']).not.toHaveProperty('strategy');
      expect(stdout).toContain('fallbacks of chat: targets are tried in order');
    },
  );

  it('writes no time that is longer than a timer can wait', async () => {
    const { config } = await convert({
      model_list: twoDeployments({}, {}),
      router_settings: { timeout: 1e9, cooldown_time: 1e9 },
    });
    const most = 2 ** 31 - 1;
    expect(config).toMatchObject({ timeouts: { totalMs: most }, health: { coolDownMs: most } });
  });

  it('keeps the weights of deployments that share a name, where there are no fallbacks', async () => {
    writeFileSync(join(folder, 'config.yaml'), CONFIG.replace(/ {2}fallbacks.*\n/, ''));
    await run(['init', '--from', 'litellm', 'config.yaml', '--json'], { folder });
    const text = read('chat-completions-router.config.json');
    expect(parseJsonConfig(text, 'config', VARIABLES)).toMatchObject({
      models: {
        chat: {
          targets: [
            { model: 'chat-eu', weight: 300 },
            { model: 'gpt-4o-mini', weight: 100 },
          ],
          strategy: 'weighted',
        },
      },
    });
  });

  it('sells each deployment of a model at its own price', async () => {
    const { config, stdout } = await convert({
      model_list: [
        {
          model_name: 'chat',
          litellm_params: { model: 'ollama/llama3', input_cost_per_token: 0, output_cost_per_token: 0 },
        },
        {
          model_name: 'chat',
          litellm_params: {
            model: 'openai/gpt-4o',
            input_cost_per_token: 2.5e-6,
            output_cost_per_token: 1e-5,
          },
        },
        { model_name: 'chat', litellm_params: { model: 'openai/gpt-4o-mini' } },
        { model_name: 'chat', litellm_params: { model: 'openai/unheard-of' } },
      ],
    });
    expect(config.models['chat']).toEqual({
      targets: [
        { provider: 'ollama', model: 'llama3', pricing: 'free' },
        { provider: 'openai', model: 'gpt-4o', pricing: { input: '2.50', output: '10.00' } },
        { provider: 'openai', model: 'gpt-4o-mini', pricing: 'catalog' },
      ],
      strategy: 'weighted',
      pricing: { input: '2.50', output: '10.00' },
      maxOutputTokens: 16_384,
    });
    expect(config.prices).toBe('catalog');
    expect(stdout).toContain('chat: each target has a price of its own');
    expect(stdout).toContain('model_list[3] (chat): left out: no price is known');
  });

  it('has one price for deployments of one price', async () => {
    const { config } = await convert({ model_list: twoDeployments({}, {}) });
    expect(config.models['chat']).toEqual({
      targets: ['openai/gpt-1', 'openai/gpt-2'],
      strategy: 'weighted',
      pricing: { input: '1.00', output: '2.00' },
      maxOutputTokens: 1000,
    });
  });

  it('keeps the prices of fallbacks whose deployments differ, also after a free model', async () => {
    const { config } = await convert({
      model_list: [
        ...twoDeployments({}, { info: { output_cost_per_token: 4e-6 } }),
        {
          model_name: 'local',
          litellm_params: { model: 'ollama/llama3', input_cost_per_token: 0, output_cost_per_token: 0 },
        },
      ],
      litellm_settings: { fallbacks: [{ local: ['chat'] }] },
    });
    expect(config.models['local']).toEqual({
      targets: [
        'ollama/llama3',
        { provider: 'openai', model: 'gpt-1', pricing: { input: '1.00', output: '2.00' } },
        { provider: 'openai', model: 'gpt-2', pricing: { input: '1.00', output: '4.00' } },
      ],
      pricing: 'free',
      maxOutputTokens: 1000,
    });
    const router = createChatCompletionsRouter({ ...config, store: 'memory:' });
    await router.close();
  });

  it.each<[string, object, object, number | undefined, number | undefined]>([
    ['weights, not rpm', { weight: 3, rpm: 10 }, { weight: 1, rpm: 900 }, 3, 1],
    ['a weight of 0', { weight: 0, rpm: 900 }, { weight: 1, rpm: 10 }, 1, 0.000_001],
    ['a missing weight', { rpm: 900 }, { weight: 2 }, 2, 0.000_001],
    ['rpm, not tpm', { rpm: 10, tpm: 5 }, { rpm: 20, tpm: 900 }, 10, 20],
    ['no weights but 0', { weight: 0 }, { weight: 0 }, undefined, undefined],
  ])('chooses one kind of weight for a model: %s', async (_what, first, second, one, other) => {
    const { config } = await convert({ model_list: twoDeployments({ params: first }, { params: second }) });
    const { targets } = config.models['chat'] ?? { targets: [] };
    expect(targets.map((target) => (typeof target === 'string' ? undefined : target.weight))).toEqual([
      one,
      other,
    ]);
  });

  it('tries a deployment whose weight is 0 after the others, and says so', async () => {
    const { config, stdout } = await convert({
      model_list: twoDeployments({ params: { weight: 0 } }, { params: { weight: 1 } }),
    });
    expect(config.models['chat']).toMatchObject({
      targets: [{ model: 'gpt-2', weight: 1 }, { model: 'gpt-1' }],
    });
    expect(stdout).toContain('model_list[0] (chat): its share of the requests is 0');
  });

  it('keeps the prices of long prompts, of audio and of an hour in the cache', async () => {
    const { config, stdout } = await convert({
      model_list: [
        {
          model_name: 'long',
          litellm_params: { model: 'openai/gpt-4.1', input_cost_per_token_above_200k_tokens: 2.5e-6 },
          model_info: {
            input_cost_per_token: 1.25e-6,
            output_cost_per_token: 1e-5,
            cache_read_input_token_cost: 3e-7,
            cache_creation_input_token_cost_above_1hr: 2e-6,
            input_cost_per_audio_token: 3e-6,
            output_cost_per_token_above_200k_tokens: 1.5e-5,
            cache_read_input_token_cost_above_400k_tokens: 9e-7,
            input_cost_per_token_batches: 6e-7,
            tiered_pricing: [],
            input_cost_per_second: null,
            max_output_tokens: 1000,
          },
        },
      ],
    });
    expect(config.models['long']?.pricing).toEqual({
      input: '1.25',
      output: '10.00',
      cachedInput: '0.30',
      cacheWriteHourInput: '2.00',
      audioInput: '3.00',
      tiers: [
        {
          above: 200_000,
          input: '2.50',
          output: '15.00',
          cachedInput: '0.30',
          cacheWriteHourInput: '2.00',
          audioInput: '3.00',
        },
        {
          above: 400_000,
          input: '2.50',
          output: '15.00',
          cachedInput: '0.90',
          cacheWriteHourInput: '2.00',
          audioInput: '3.00',
        },
      ],
    });
    expect(stdout).toContain(
      '\n  model_info.input_cost_per_token_batches, model_info.tiered_pricing: a price that is not converted',
    );
    const router = createChatCompletionsRouter({ ...config, store: 'memory:' });
    await router.close();
  });

  it('says that a price without its other half is not used', async () => {
    const { config, stdout } = await convert({
      model_list: [
        { model_name: 'half', litellm_params: { model: 'openai/gpt-4o', input_cost_per_token: 1e-6 } },
      ],
    });
    expect(config.models['half']?.pricing).toBe('catalog');
    expect(stdout).toContain('model_list[0] (half): its prices are not used');
  });

  it('serves chat models whose name ends in instruct, and what a mode says is for chat', async () => {
    const free = { input_cost_per_token: 0, output_cost_per_token: 0 };
    const { config, stdout } = await convert({
      model_list: [
        { model_name: 'llama', litellm_params: { model: 'openai/llama-3.3-70b-instruct', ...free } },
        { model_name: 'old', litellm_params: { model: 'openai/gpt-3.5-turbo-instruct', ...free } },
        { model_name: 'my model', litellm_params: { model: 'openai/gpt-4o', ...free } },
        {
          model_name: 'flux',
          litellm_params: { model: 'openai/flux-chat', ...free },
          model_info: { mode: 'chat' },
        },
      ],
    });
    expect(Object.keys(config.models)).toEqual(['llama', 'flux']);
    expect(stdout).toContain('model_list[1] (old): left out (completions)');
    expect(stdout).toContain(
      'model_list[2] (my model): left out: a model ID has 1 to 256 characters, no spaces',
    );
  });

  it.each<[string, object, object]>([
    ['no retries', { num_retries: 0 }, { retries: { perTarget: 0 } }],
    ['no failure that is allowed', { allowed_fails: 0 }, { health: { failures: 1 } }],
    ['no time to cool down', { cooldown_time: 0, allowed_fails: 2 }, { health: false }],
    ['no cooldowns', { disable_cooldowns: true }, { health: false }],
  ])('keeps a setting of %s', async (_what, settings, options) => {
    const { config } = await convert({ model_list: twoDeployments({}, {}), router_settings: settings });
    expect(config).toMatchObject(options);
    const router = createChatCompletionsRouter({ ...config, store: 'memory:' });
    await router.close();
  });

  it('writes TypeScript that the router takes', async () => {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(
      new URL('../../..', import.meta.url).pathname,
      join(folder, 'node_modules/chat-completions-router'),
    );
    expect((await run(['init', '--from', 'litellm', 'config.yaml'], { folder })).code).toBe(0);
    const url = pathToFileURL(join(folder, 'chat-completions-router.config.ts')).href;
    const { default: config } = (await import(url)) as { default: ServerConfig };
    const { server: _, ...options } = config;
    const router = createChatCompletionsRouter({ ...options, store: 'memory:' });
    await router.close();
  });

  it('lists what has no equivalent, by name, and why', async () => {
    const { stdout } = await run(['init', '--from', 'litellm', 'config.yaml'], { folder });
    for (const line of [
      'model_list[5] (vectors): left out (embedding): only chat completions are served',
      'model_list[6] (pictures): left out (images): only chat completions are served',
      'model_list[7] (llama): left out: sagemaker has no preset here, and the model has no api_base',
      'litellm_params.rpm, litellm_params.tpm, litellm_params.max_parallel_requests: a limit of the target',
      'litellm_settings.success_callback: use hooks',
      'general_settings.master_key: clients use API keys',
      'general_settings.database_url: keys and credits are in',
      'router_settings.redis_host: for several gateways set store to redis://HOST',
    ]) {
      expect(stdout).toContain(`  ${line}`);
    }
    expect(stdout).toContain('\n  LLM_EXAMPLE_COM_API_KEY=\n');
    expect(stdout + read('chat-completions-router.config.ts')).not.toContain('sk-secret-in-the-file');
  });

  it('writes a script that creates keys with the same limits', async () => {
    const { stdout } = await run(
      ['init', '--from', 'litellm', 'config.yaml', '--keys', 'keys.json', '--json'],
      { folder, env: VARIABLES },
    );
    expect(stdout).toContain('4 models, 5 providers, 2 keys');
    expect(stdout).toContain('each key gets a new secret');
    expect(stdout).toContain('key old of ada: left out: it has expired');
    expect(stdout).toContain('key bad of ada: left out: it is blocked');
    const commands = read('litellm-keys.sh')
      .split('\n')
      .filter((line) => line.startsWith('exists '));
    expect(commands).toEqual([
      String.raw`exists team-one it-s-prod || npx chat-completions-router keys create team-one --id it-s-prod --name 'it'\''s prod' --budget 12.50/month --models 'chat,small' --requests-per-minute 60 --tokens-per-minute 90000 --concurrent-requests 4 --metadata 'plan=pro' --json`,
      'exists default key-2 || npx chat-completions-router keys create default --id key-2 --budget 3.00/lifetime --json',
    ]);
  });

  it('writes a script whose commands work', async () => {
    await run(['init', '--from', 'litellm', 'config.yaml', '--keys', 'keys.json', '--json'], {
      folder,
      env: VARIABLES,
    });
    await runScript();
    const { stdout } = await run(['keys', 'get', 'team-one', 'it-s-prod', '--json'], {
      folder,
      env: VARIABLES,
    });
    expect(JSON.parse(stdout)).toMatchObject({
      name: "it's prod",
      budget: { amount: '12.50', per: 'month' },
      models: ['chat', 'small'],
      requestsPerMinute: 60,
    });
  });

  it('keeps customers apart whose IDs differ in what no account can have', async () => {
    const payers = [
      { user_id: 'ann@example.com' },
      { user_id: 'ann.example.com' },
      { user_id: 'ann-example-com' },
      { user_id: 'ann example com' },
      { user_id: '日本' },
      { user_id: '中国' },
      { team_id: '-n' },
      { team_id: "it's" },
      { user_id: '-n' },
      { user_id: 'default' },
      {},
    ];
    const keys = payers.map((payer, n) => ({ token: String(n), key_alias: '-key', models: [], ...payer }));
    const stdout = await convertKeys(keys);
    const created = await runScript();
    expect(created).toMatchObject([
      { account: 'ann@example.com', id: 'key', name: '-key' },
      { account: 'ann.example.com', id: 'key' },
      { account: 'ann-example-com', id: 'key' },
      { account: 'ann-example-com-2', id: 'key' },
      { account: 'user', id: 'key' },
      { account: 'user-2', id: 'key' },
      { account: '-n', id: 'key' },
      { account: "it's", id: 'key' },
      { account: '-n-2', id: 'key' },
      { account: 'default', id: 'key' },
      { account: 'default-2', id: 'key' },
    ]);
    expect(stdout).toContain('became account ann-example-com-2');
    expect(read('litellm-keys.sh')).toContain(
      '# npx chat-completions-router credits grant --id litellm -- -n 10.00',
    );
  });

  it('leaves out keys whose limit of 0 allows nothing, and keeps budgets per hour', async () => {
    const stdout = await convertKeys([
      { key_alias: 'broke', max_budget: 0, user_id: 'ada' },
      { key_alias: 'mute', rpm_limit: 0, user_id: 'ada' },
      { key_alias: 'shared', litellm_budget_table: { max_budget: 0 }, user_id: 'ada' },
      { key_alias: 'window', budget_limits: [{ max_budget: 0, budget_duration: '1d' }], user_id: 'ada' },
      { key_alias: 'hourly', max_budget: 2, budget_duration: '1h', user_id: 'ada' },
    ]);
    expect(stdout).toContain('key mute of ada: left out: its rpm_limit is 0, which allows nothing');
    expect(stdout).toContain(
      'key broke of ada, key shared of ada: left out: its max_budget is 0, which allows nothing',
    );
    expect(stdout).toContain('key window of ada: left out: its budget_limits is 0, which allows nothing');
    expect(stdout).not.toContain('budget_duration');
    expect(await runScript()).toMatchObject([
      { account: 'ada', id: 'hourly', budget: { amount: '2.00', per: 'hour' } },
    ]);
  });

  it('gives a key the limits of its budget where it has none of its own', async () => {
    const budget = {
      max_budget: 40,
      budget_duration: '7d',
      rpm_limit: 10,
      tpm_limit: 2000,
      max_parallel_requests: 3,
      tpd_limit: 9,
    };
    const shared = { budget_id: 'gold', litellm_budget_table: budget, user_id: 'ada' };
    const stdout = await convertKeys([
      { key_alias: 'all', max_budget: null, rpm_limit: null, ...shared },
      { key_alias: 'own', max_budget: 5, rpm_limit: 60, ...shared },
      { key_alias: 'unknown', max_budget: 5, budget_id: 'silver', user_id: 'ada' },
    ]);
    expect(await runScript()).toMatchObject([
      {
        id: 'all',
        budget: { amount: '40.00', per: 'week' },
        requestsPerMinute: 10,
        tokensPerMinute: 2000,
        concurrentRequests: 3,
      },
      {
        id: 'own',
        budget: { amount: '5.00', per: 'lifetime' },
        requestsPerMinute: 60,
        tokensPerMinute: 2000,
      },
      { id: 'unknown', budget: { amount: '5.00', per: 'lifetime' } },
    ]);
    expect(stdout).toContain(
      '\n  key unknown of ada: budget_id silver: the limits of this budget are not in this export',
    );
    expect(stdout).toContain('key all of ada: tpd_limit, key own of ada: tpd_limit: tokens are limited');
  });

  it('gives a key the budgets of all its periods, of each the smallest', async () => {
    await convertKeys([
      {
        key_alias: 'windows',
        max_budget: 100,
        budget_duration: '30d',
        budget_limits: [
          { max_budget: 2, budget_duration: '1h' },
          { max_budget: 80, budget_duration: '1mo' },
        ],
        user_id: 'ada',
      },
    ]);
    expect(await runScript()).toMatchObject([
      {
        budget: [
          { amount: '80.00', per: 'month' },
          { amount: '2.00', per: 'hour' },
        ],
      },
    ]);
  });

  it('says which limits of a key are not converted', async () => {
    const stdout = await convertKeys([
      {
        key_alias: 'one',
        team_id: 'acme',
        models: ['all-team-models'],
        access_group_ids: ['beta'],
        allowed_routes: ['/embeddings'],
        aliases: {},
        spend: 0,
      },
    ]);
    for (const line of [
      'team acme, key one of acme: models: limits and models of a team are not in this export',
      'key one of acme: access_group_ids: the models of access groups are not in this export',
      'key one of acme: allowed_routes: limit paths in your reverse proxy or app',
    ]) {
      expect(stdout).toContain(`\n  ${line}`);
    }
    expect(stdout).not.toContain('spend');
  });

  it('keeps within the limits of keys, so that each command of the script works', async () => {
    const metadata = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`name${n}`, n]));
    const stdout = await convertKeys([
      {
        key_alias: 'rich',
        max_budget: 1e22,
        tpm_limit: 9_223_372_036_854_775_807n.toString(),
        user_id: 'ada',
      },
      { key_alias: 'x'.repeat(300), key_name: 'long', user_id: 'ada' },
      { key_alias: 'models', models: ['chat', 'my model', 'a,b'], user_id: 'ada' },
      { key_alias: 'blanks', models: ['my model'], user_id: 'ada' },
      { key_alias: 'many', models: Array.from({ length: 101 }, (_, n) => `m${n}`), user_id: 'ada' },
      {
        key_alias: 'notes',
        metadata: { '': 1, ['n'.repeat(65)]: 1, v: 'v'.repeat(513), ...metadata },
        user_id: 'ada',
      },
      {
        key_alias: 'huge',
        metadata: Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`name${n}`, 'v'.repeat(512)])),
        user_id: 'ada',
      },
      { key_alias: 'never', expires: 'soon', user_id: 'ada' },
    ]);
    const created = await runScript();
    expect(created).toMatchObject([
      {
        id: 'rich',
        budget: { amount: '9007199.254740991', per: 'lifetime' },
        tokensPerMinute: 1_000_000_000,
      },
      { name: 'x'.repeat(200) },
      { id: 'models', models: ['chat'] },
      { id: 'notes' },
    ]);
    expect(Object.keys((created[3] as { metadata: object }).metadata)).toHaveLength(16);
    for (const line of [
      'key rich of ada: max_budget: became 9007199.254740991, the largest amount',
      'key rich of ada: tpm_limit: became 1000000000, the highest limit',
      'key models of ada: models: names that no model can have here are left out',
      'key blanks of ada: left out: none of its models can be the ID of one here',
      'key many of ada: left out: it has 101 models: at most 100 are possible',
      'key notes of ada: metadata: only texts and numbers without commas are kept',
      'key huge of ada: left out: metadata, models and require must be at most 8000 characters together',
      'key never of ada: left out: its expiry is not a time',
    ]) {
      expect(stdout).toContain(`\n  ${line}`);
    }
  });

  it('writes a script that can be run again, and ends at the first error', async () => {
    await convertKeys(KEYS.keys);
    await runScript();
    const found = await run(['keys', 'get', '--json', '--', 'team-one', 'it-s-prod'], {
      folder,
      env: VARIABLES,
    });
    expect(found.code).toBe(0);
    expect(read('litellm-keys.sh')).toContain('npx chat-completions-router keys get --json -- "$1" "$2" >');
    expect(runScriptWith('[ "$3" = get ] || echo "$*"')).toBe('');
    expect(runScriptWith('[ "$3 $6" = "get default" ] || { [ "$3" = create ] && echo "$4"; }')).toBe(
      'team-one\n',
    );
    expect(() => runScriptWith('echo "$3" >> calls; return 1')).toThrow(/Command failed/);
    expect(read('calls')).toBe('get\ncreate\n');
  });

  it('takes a time of expiry without a zone as UTC', async () => {
    vi.stubEnv('TZ', 'America/New_York');
    try {
      await convertKeys(
        ['2099-01-31T10:00:00', '2099-01-31 10:00:00.123456', '2099-01-31T10:00:00+02:00', '2099-01-31'].map(
          (expires) => ({ token: 'x', expires, user_id: 'ada' }),
        ),
      );
    } finally {
      vi.unstubAllEnvs();
    }
    expect(await runScript()).toMatchObject([
      { expiresAt: '2099-01-31T10:00:00.000Z' },
      { expiresAt: '2099-01-31T10:00:00.123Z' },
      { expiresAt: '2099-01-31T08:00:00.000Z' },
      { expiresAt: '2099-01-31T00:00:00.000Z' },
    ]);
  });

  it.each<[string, string[], string]>([
    ['no file', ['--from', 'litellm'], 'FILE is missing'],
    ['another format', ['--from', 'portkey', 'config.yaml'], '--from must be one of litellm, got "portkey"'],
    ['a file without its format', ['config.yaml'], 'FILE requires --from'],
    ['keys without models', ['--keys', 'keys.json'], '--keys requires --from'],
  ])('refuses %s', async (_what, args, message) => {
    const { code, stderr } = await run(['init', ...args], { folder });
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });

  it('says which file can not be read', async () => {
    const none = await run(['init', '--from', 'litellm', 'none.yaml'], { folder });
    expect(none.stderr).toContain("FILE: can't read none.yaml: ENOENT");
    const noKeys = await run(['init', '--from', 'litellm', 'config.yaml', '--keys', 'none.json'], { folder });
    expect(noKeys.stderr).toContain("--keys: can't read none.json: ENOENT");
    writeFileSync(join(folder, 'broken.yaml'), 'model_list: [');
    const broken = await run(['init', '--from', 'litellm', 'broken.yaml'], { folder });
    expect(broken.stderr).toContain('broken.yaml: invalid YAML');
    writeFileSync(join(folder, 'hashes.json'), JSON.stringify({ keys: ['a'.repeat(64)] }));
    const hashes = await run(['init', '--from', 'litellm', 'config.yaml', '--keys', 'hashes.json'], {
      folder,
    });
    expect(hashes.stderr).toContain('GET /key/list?return_full_object=true');
  });
});
