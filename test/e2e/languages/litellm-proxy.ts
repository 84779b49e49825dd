import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';

/** The only key that a LiteLLM without a database knows. */
export const MASTER_KEY = 'sk-litellm-master';

/** LiteLLM's proxy, as a provider of ours. */
export interface LiteLLMProxy {
  readonly baseURL: string;
  /** Kills it, whatever it does. */
  close(): Promise<void>;
}

/**
 * Starts LiteLLM's proxy before a provider, without a database, and without retries of its own.
 *
 * @param interpreter - the Python that has it
 * @param providerURL - the base URL of the provider, whose model is `upstream-model`; behind `unreachable-model` is none
 */
export async function startLiteLLMProxy(interpreter: string, providerURL: string): Promise<LiteLLMProxy> {
  const folder = join(dirname(interpreter), '../proxy');
  const config = join(folder, 'config.yaml');
  mkdirSync(folder, { recursive: true });
  writeFileSync(config, configOf(providerURL));
  const port = await freePort();
  const program = join(dirname(interpreter), 'litellm');
  const args = ['--config', config, '--host', '127.0.0.1', '--port', String(port)];
  const child = spawn(program, args, {
    cwd: folder,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (printed = (printed + text).slice(-20_000)));
  }
  const origin = `http://127.0.0.1:${port}`;
  while (!(await isUp(`${origin}/health/liveliness`))) {
    if (child.exitCode !== null) throw new Error(`LiteLLM did not start: ${printed}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return { baseURL: `${origin}/v1`, close: () => end(child) };
}

function configOf(providerURL: string): string {
  return JSON.stringify({
    model_list: [
      modelOf('upstream-model', providerURL),
      modelOf('unreachable-model', 'http://127.0.0.1:9/v1'),
    ],
    general_settings: { master_key: MASTER_KEY },
    litellm_settings: { num_retries: 0, telemetry: false },
    // One refusal must not set its only model aside.
    router_settings: { num_retries: 0, disable_cooldowns: true },
  });
}

function modelOf(name: string, baseURL: string): object {
  return {
    model_name: name,
    litellm_params: { model: `openai/${name}`, api_base: baseURL, api_key: 'sk-behind', max_retries: 0 },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function isUp(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
