import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Gateway } from '../../helpers/gateway.ts';
import { asShown, startParrotGateway } from '../../helpers/parrot-gateway.ts';

const FOLDER = new URL('.', import.meta.url).pathname;
const PAGE = readFileSync(new URL('../../../docs/clients.md', import.meta.url), 'utf8');
/** The packages of a program, by the names that they have here. */
const NAMES = { ai: 'ai-7', '@openrouter/ai-sdk-provider': 'openrouter-provider-3' };

/** The programs in JavaScript, by the first package that they import. */
const PROGRAMS = [...PAGE.matchAll(/^```js\n(.*?)^```/gms)].map(([, program = '']): [string, string] => {
  const [, name = ''] = / from '([^']+)';/.exec(program) ?? [];
  return [name, program];
});

describe('docs/clients.md', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startParrotGateway();
  });

  afterAll(() => gateway.close());

  it('has a program for each client that is tested here', () => {
    expect(PROGRAMS.map(([name]) => name)).toEqual([
      '@openrouter/sdk',
      '@openrouter/ai-sdk-provider',
      '@ai-sdk/gateway',
    ]);
  });

  it.each(PROGRAMS)('shows a program with %s that is answered', async (name, program) => {
    let source = asShown(program, gateway.baseURL);
    for (const [shown, here] of Object.entries(NAMES)) {
      source = source.replaceAll(`from '${shown}'`, `from '${here}'`);
    }
    const file = `${FOLDER}.cache/${name.replaceAll('/', '-')}.mjs`;
    mkdirSync(`${FOLDER}.cache`, { recursive: true });
    writeFileSync(file, source);
    const env = { PATH: process.env['PATH'], ROUTER_API_KEY: gateway.key };
    const { stdout } = await promisify(execFile)(process.execPath, [file], { env });
    expect(stdout).toContain('“Good morning”');
  });
});
