import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Gateway, PRICING, startGateway } from '../../helpers/gateway.ts';

interface Read {
  /** With a key. */
  readonly known: Readonly<Record<string, unknown>>;
  /** Without a key. */
  readonly added: readonly string[];
}

describe('Cline', () => {
  const home = mkdtempSync(join(tmpdir(), 'ccr-cline-'));
  let gateway: Gateway;
  let read: Read;

  beforeAll(async () => {
    const targets = ['loopback/x'];
    gateway = await startGateway({
      publicModels: ['acme/*'],
      models: {
        'acme/rich': {
          targets,
          pricing: PRICING,
          contextWindow: 200_000,
          maxOutputTokens: 64_000,
          description: 'Sees.',
          inputModalities: ['text', 'image'],
          supportedParameters: ['tools', 'reasoning', 'temperature'],
        },
        'acme/plain': { targets, pricing: 'free' },
        inside: { targets, pricing: 'free' },
      },
    });
    const env = { PATH: process.env['PATH'], HOME: home, BASE_URL: gateway.baseURL, API_KEY: gateway.key };
    const options = { cwd: import.meta.dirname, env };
    const { stdout } = await promisify(execFile)(process.execPath, ['cline.mjs'], options);
    read = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Read;
  });

  afterAll(async () => {
    await gateway.close();
    rmSync(home, { recursive: true });
  });

  it('reads what a model can do, its limits and its prices', () => {
    expect(read.known['acme/rich']).toMatchObject({
      contextWindow: 200_000,
      maxTokens: 64_000,
      description: 'Sees.',
      capabilities: ['streaming', 'tools', 'reasoning', 'temperature', 'images'],
      // It takes the price of a token as it is.
      pricing: { input: 1e-6, output: 3e-6 },
    });
  });

  it('reads the list of a provider that is added without a key: of public models', () => {
    expect(read.added.toSorted()).toEqual(['acme/plain', 'acme/rich']);
  });
});
