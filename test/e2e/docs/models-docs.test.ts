import { execFile, execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ModelRecord } from '../../../src/index.ts';
import { type Gateway, startGateway } from '../../helpers/gateway.ts';

const PAGE = readFileSync(new URL('../../../docs/models.md', import.meta.url), 'utf8');
const COMMANDS = [...PAGE.matchAll(/^```sh\n(.*?)^```/gms)].map(([, command = '']) => command);

describe('docs/models.md', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway({
      models: {
        'acme/full': {
          targets: ['loopback/x'],
          pricing: {
            input: '1',
            output: '2',
            cacheWriteInput: '3',
            audioInput: '4',
            reasoningOutput: '5',
            request: '0.1',
            webSearch: '0.1',
            tiers: [{ above: 1000, input: '2', output: '4' }],
          },
          contextWindow: 8192,
          maxOutputTokens: 1000,
          aliases: ['full'],
          deprecatedAt: '2026-01-01',
          shutdownDate: '2099-01-01',
          replacement: 'acme/next',
          description: 'All that a record can have.',
          inputModalities: ['text', 'image'],
          supportedParameters: ['tools'],
          knowledgeCutoff: '2024-10',
          reasoning: { mandatory: true },
          tokenizer: 'GPT',
          instructType: 'chatml',
          huggingFaceId: 'acme/full',
          defaultParameters: { temperature: 1 },
        },
        'acme/next': { targets: ['loopback/y'], pricing: 'free' },
      },
    });
  });

  afterAll(() => gateway?.close());

  it('has a row for each member of a record, and for no other', async () => {
    const [record] = await gateway.router.models();
    const [, table = ''] = /### Fields of a model\n(.*?)\n¹/s.exec(PAGE) ?? [];
    const rows = [...table.matchAll(/^\| (`.*?) +\|/gm)].map(([, names = '']) => names);
    // `.output` after `pricing.input` is `pricing.output`.
    const named = rows.flatMap((names) => {
      const parent = /`(\w+)\./.exec(names)?.[1] ?? '';
      return [...names.matchAll(/`([\w.]+)`/g)].map(([, name = '']) =>
        name.startsWith('.') ? parent + name : name,
      );
    });
    expect(record).toBeDefined();
    const members = membersOf(record);
    expect(named.filter((name) => !members.includes(name))).toEqual([]);
    // Prices and tiers have many names: the table has the first of each kind.
    const prices = /^pricing\./;
    expect(members.filter((name) => !named.includes(name) && !prices.test(name))).toEqual([]);
  });

  it('has a curl of the list that is answered', async () => {
    const [curl = ''] = COMMANDS.filter((command) => command.includes('localhost:8787/v1/models'));
    const command = curl.replace('http://localhost:8787/v1', gateway.baseURL);
    const env = { PATH: process.env['PATH'], ROUTER_API_KEY: gateway.key };
    const { stdout } = await promisify(execFile)('sh', ['-c', command], { env });
    expect(JSON.parse(stdout)).toMatchObject({ data: [{ id: 'acme/full' }], total_count: 1 });
  });

  it('has commands that a shell can read', () => {
    expect(COMMANDS).toHaveLength(2);
    for (const command of COMMANDS) execFileSync('sh', ['-n', '-c', command]);
  });
});

/** Names of the members, with those of inner objects: `pricing.input`. */
function membersOf(record: ModelRecord | undefined): readonly string[] {
  return Object.entries(record ?? {}).flatMap(([name, value]: [string, unknown]) =>
    NESTED.has(name) ? Object.keys(value ?? {}).map((inner) => `${name}.${inner}`) : [name],
  );
}

const NESTED: ReadonlySet<string> = new Set(['pricing', 'architecture', 'top_provider', 'links']);
