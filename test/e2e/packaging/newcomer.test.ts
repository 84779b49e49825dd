import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, expect, it } from 'vitest';

import { freePort } from '../../helpers/redis-server.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../../..');
const PAGE = readFileSync(join(ROOT, 'docs/getting-started.md'), 'utf8');

const home = mkdtempSync(join(tmpdir(), 'ccr-newcomer-'));
/** What the reader has in place of the name in the registry. */
const tarball = join(home, 'chat-completions-router.tgz');
/** The machine's, with its way to the registry, but for the keys of providers. */
const env: NodeJS.ProcessEnv = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.endsWith('_API_KEY'))),
  PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter),
  npm_config_cache: join(home, 'npm-cache'),
  npm_config_audit: 'false',
  npm_config_fund: 'false',
};
const started: ChildProcess[] = [];
const times: { readonly step: string; readonly seconds: number }[] = [];

afterAll(() => {
  for (const child of started) child.kill('SIGKILL');
  rmSync(home, { recursive: true });
  console.table(times);
});

it('a newcomer gets from an empty folder to a streamed answer by what the page says', async () => {
  copyFileSync(join(ROOT, '.cache/e2e/chat-completions-router.tgz'), tarball);
  await demo(folderOf('try'));
  await express(folderOf('app'));
}, 600_000);

async function demo(cwd: string): Promise<void> {
  const port = await freePort();
  const [command = ''] = commands('npx chat-completions-router demo');
  const npx = command.replace(
    'npx chat-completions-router',
    `npx --yes --package=${tarball} -- chat-completions-router`,
  );
  const server = await timed('npx, until the demo is listening', () =>
    start(`${npx} --port ${port}`, cwd, /Ctrl-C/),
  );
  const blocks = server.output().split('\n\n');
  const pasted = blocks.filter((block) => /^(curl|npm install|node) /.test(block));
  expect(pasted).toHaveLength(5);
  const [stream = '', client = '', credits = '', clamp = '', refused = ''] = pasted;
  expect(await timed('curl -N', () => shell(stream, cwd))).toMatch(/data: \[DONE\]\n\n$/);
  expect(await timed('npm install openai, and a stream', () => shell(client, cwd))).toContain('you say');
  expect(await timed('curl /credits', () => shell(credits, cwd))).toContain('"balance":"4.99');
  expect(await timed('a limited answer', () => shell(clamp, cwd))).toMatch(/^x-ccr-max-tokens: \d+\r?$/m);
  expect(await timed('a refused request', () => shell(refused, cwd))).toMatch(/^HTTP\/1.1 402 /);
  expect(await timed('the end of the demo', () => server.end('SIGINT'))).toContain('Closing.');
}

async function express(cwd: string): Promise<void> {
  const [init = '', install = ''] = commands('npm ');
  await timed(init, () => shell(init, cwd));
  await timed(install, () => shell(install.replace(' chat-completions-router', ` ${tarball}`), cwd));
  for (const name of ['server.mjs', 'provider.mjs', 'client.mjs', 'account.mjs']) {
    writeFileSync(join(cwd, name), block(name));
  }
  const port = await freePort();
  const provider = await start('node provider.mjs', cwd, /server\.mjs/);
  const command = `PORT=${port} ${provider.output().trim()}`;
  const server = await timed('node server.mjs', () => start(command, cwd, /Listening/));

  await expect(start(command, cwd, /Listening/)).rejects.toThrow(/node server\.mjs ended/);
  const [createKey = '', grant = ''] = commands('npx chat-completions-router ').slice(1);
  const created = await timed(createKey, () => shell(createKey, cwd));
  const [key] = /sk-ccr-\w+/.exec(created) ?? [];
  await timed(grant, () => shell(grant, cwd));
  await timed(grant, () => shell(grant, cwd));

  const client = `ROUTER_URL=http://127.0.0.1:${port}/v1 ROUTER_API_KEY=${key} node client.mjs`;
  expect(await timed('node client.mjs', () => shell(client, cwd))).toMatch(
    /^Hello there\.\n\$4\.99\d+ left\n$/,
  );
  await timed('the end of the server', () => server.end('SIGTERM'));
  const again = await timed('node server.mjs, again', () => start(command, cwd, /Listening/));
  expect(await timed('node client.mjs, again', () => shell(client, cwd))).toMatch(
    /^Hello there\.\n\$4\.99\d+ left\n$/,
  );
  await again.end('SIGTERM');

  const hash = `import { accountOf } from './account.mjs'; console.log(accountOf('ada@example.com'))`;
  expect(await shell(`node --input-type=module -e "${hash}"`, cwd)).toMatch(/^[\w-]{64}\n$/);
  await shell(commands('echo ')[0] ?? '', cwd);
  expect(readFileSync(join(cwd, '.gitignore'), 'utf8')).toBe('credits.db*\n');
}

/** The lines of the page's shell blocks that begin so. */
function commands(beginning: string): string[] {
  return [...PAGE.matchAll(/^```sh\n(.*?)^```/gms)]
    .flatMap(([, lines = '']) => lines.split('\n'))
    .filter((line) => line.startsWith(beginning));
}

/** A block of the page that begins with its name. */
function block(name: string): string {
  const [, source] = PAGE.split(`\`\`\`js\n// ${name}\n`);
  if (source === undefined) throw new Error(`The page has no block ${name}.`);
  return source.slice(0, source.indexOf('\n```') + 1);
}

function folderOf(name: string): string {
  const folder = join(home, name);
  mkdirSync(folder);
  return folder;
}

async function shell(command: string, cwd: string): Promise<string> {
  const { stdout } = await run('sh', ['-c', command], { cwd, env });
  return stdout;
}

interface Started {
  output(): string;
  /** Ends it by a signal, as a terminal does, and gives what it printed. @throws if it didn't exit with 0 */
  end(signal: NodeJS.Signals): Promise<string>;
}

/** Starts a command, and waits until it has printed that. */
async function start(command: string, cwd: string, until: RegExp): Promise<Started> {
  // A group of its own, to which a signal goes as from a terminal.
  const child = spawn('sh', ['-c', `exec env ${command}`], {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  started.push(child);
  let output = '';
  const exited = once(child, 'exit');
  await new Promise<void>((resolve, reject) => {
    const collect = (chunk: string): void => {
      output += chunk;
      if (until.test(output)) resolve();
    };
    child.stdout.setEncoding('utf8').on('data', collect);
    child.stderr.setEncoding('utf8').on('data', collect);
    void exited.then(() => reject(new Error(`${command} ended: ${output}`)));
  });
  return {
    output: () => output,
    end: async (signal) => {
      process.kill(-(child.pid ?? 0), signal);
      const [code, endedBy] = (await exited) as [number | null, string | null];
      // npm ends by the signal that it was sent, whatever its child did.
      if (code !== 0 && endedBy !== signal)
        throw new Error(`${command} exited with ${code ?? endedBy}: ${output}`);
      return output;
    },
  };
}

async function timed<T>(step: string, work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await work();
  times.push({ step, seconds: Math.round((performance.now() - startedAt) / 100) / 10 });
  return result;
}
