import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Gateway } from '../../helpers/gateway.ts';
import { asShown, startParrotGateway } from '../../helpers/parrot-gateway.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const PAGE = readFileSync(`${ROOT}docs/clients.md`, 'utf8');
const FOLDER = new URL('../.cache/clients', import.meta.url).pathname;

/** What stands in the page after a heading: TypeScript, or a command and its output. */
const PROGRAMS = [...PAGE.matchAll(/^## (.+?)\n[^#]*?^```ts\n(.*?)^```/gms)];
const TRANSCRIPTS = [...PAGE.matchAll(/^```sh\n((?:(?!```)[^\n]*\n)*)```\n\n```text\n(.*?)^```/gms)];

const run = promisify(execFile);

describe('docs/clients.md', () => {
  let gateway: Gateway;
  let env: NodeJS.ProcessEnv;

  beforeAll(async () => {
    gateway = await startParrotGateway();
    const { PATH, NODE_OPTIONS } = process.env;
    env = { PATH, NODE_OPTIONS, ROUTER_API_KEY: gateway.key };
    rmSync(FOLDER, { recursive: true, force: true });
    mkdirSync(FOLDER, { recursive: true });
  });

  afterAll(() => gateway.close());

  const here = (source = '') => asShown(source, gateway.baseURL);

  it('has a program for each library, and transcripts of curl', () => {
    expect(PROGRAMS.map(([, heading]) => heading)).toEqual([
      'OpenAI SDK for Node',
      'Vercel AI SDK',
      'LangChain',
      'LlamaIndex',
    ]);
    expect(TRANSCRIPTS).toHaveLength(4);
  });

  it.concurrent.each(PROGRAMS.map(([, heading = '', program = '']) => [heading, program] as const))(
    'shows a program that streams with %s',
    { timeout: 60_000 },
    async (heading, program) => {
      const file = `${FOLDER}/${heading.replaceAll(/\W+/g, '-')}.ts`;
      writeFileSync(file, here(program));
      const { stdout } = await run(process.execPath, [file], { env });
      expect(stdout).toContain('“Good morning”');
    },
  );

  it('begins with a command that lists the models', async () => {
    const [, command] = /^```sh\n(.*?)^```/ms.exec(PAGE) ?? [];
    const { stdout } = await run('sh', ['-c', here(command)], { env });
    expect(JSON.parse(stdout)).toMatchObject({ object: 'list', data: [{ id: 'demo/parrot' }] });
  });

  it.each([
    [0, 'a stream'],
    [1, 'a stream that calls a tool'],
    [2, 'structured output'],
  ])('shows what curl prints: %i, %s', async (i) => {
    const [, command, output = ''] = TRANSCRIPTS[i] ?? [];
    const { stdout } = await run('sh', ['-c', here(command)], { env });
    expect(withoutChance(stdout)).toBe(withoutChance(output));
  });

  it('shows what the credits look like', async () => {
    const [, command, output = ''] = TRANSCRIPTS[3] ?? [];
    const { stdout } = await run('sh', ['-c', here(command)], { env });
    expect(Object.keys(JSON.parse(stdout) as object)).toEqual(Object.keys(JSON.parse(output) as object));
  });
});

/** A transcript without what is different each time (IDs, times), and with the name that the page has for the model. */
function withoutChance(transcript: string): string {
  return transcript
    .replaceAll(/"(chatcmpl-|call_)[^"]*"/g, '"$1…"')
    .replaceAll(/"created":\d+/g, '"created":0')
    .replaceAll('"model":"parrot-1"', '"model":"gpt-4o-mini"')
    .trimEnd();
}
