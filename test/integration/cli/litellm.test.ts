import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

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

/** Runs the script of keys with commands in this process; what they created. */
async function runScript(): Promise<unknown[]> {
  const words = String.raw`npx() { printf '%s\0' "$@"; echo; }; `;
  const lines = execFileSync('sh', ['-c', words + read('litellm-keys.sh')], { encoding: 'utf8' });
  const created: unknown[] = [];
  for (const line of lines.trimEnd().split('\n')) {
    const { code, stdout, stderr } = await run(line.split('\0').slice(1, -1), { folder, env: VARIABLES });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    created.push(JSON.parse(stdout));
  }
  return created;
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
      health: { failures: 3, coolDownMs: 30_000 },
    });
    expect(Object.keys(config.models)).toEqual(['chat', 'small', 'local/*', 'anthropic/*']);
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
      .filter((line) => line.startsWith('npx'));
    expect(commands).toEqual([
      String.raw`npx chat-completions-router keys create team-one --id it-s-prod --name 'it'\''s prod' --budget 12.50/month --models 'chat,small' --requests-per-minute 60 --tokens-per-minute 90000 --concurrent-requests 4 --metadata 'plan=pro' --json`,
      'npx chat-completions-router keys create default --id key-2 --budget 3.00/lifetime --json',
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
    writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys }));
    const { stdout } = await run(
      ['init', '--from', 'litellm', 'config.yaml', '--keys', 'keys.json', '--json'],
      { folder, env: VARIABLES },
    );
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
    const keys = [
      { key_alias: 'broke', max_budget: 0, user_id: 'ada' },
      { key_alias: 'mute', rpm_limit: 0, user_id: 'ada' },
      { key_alias: 'hourly', max_budget: 2, budget_duration: '1h', user_id: 'ada' },
    ];
    writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys }));
    const { stdout } = await run(['init', '--from', 'litellm', 'config.yaml', '--keys', 'keys.json'], {
      folder,
      env: VARIABLES,
    });
    expect(stdout).toContain('key broke of ada: left out: its max_budget is 0, which allows nothing');
    expect(stdout).toContain('key mute of ada: left out: its rpm_limit is 0, which allows nothing');
    expect(stdout).not.toContain('budget_duration');
    expect(await runScript()).toMatchObject([
      { account: 'ada', id: 'hourly', budget: { amount: '2.00', per: 'hour' } },
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
