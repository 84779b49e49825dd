import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import * as http from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createPrometheusMetrics } from '../../../src/prometheus.ts';
import { completion, type FakeProvider, startFakeProvider } from '../../../src/testing.ts';
import { documentedBlock } from '../../helpers/documented.ts';
import { freePort } from '../../helpers/redis-server.ts';

const FOLDER = new URL('.cache/', import.meta.url).pathname;
const PAGE = readFileSync(new URL('../../../docs/observability.md', import.meta.url), 'utf8');

/** A request that the vendor's endpoint received. */
interface Received {
  readonly path: string;
  readonly headers: http.IncomingHttpHeaders;
  /** As Latin-1, in which the text of a binary format can be found. */
  readonly body: string;
}

describe('the recipes of docs/observability.md', { timeout: 60_000 }, () => {
  let provider: FakeProvider;
  let vendor: http.Server;
  let vendorURL: string;
  let received: Received[] = [];
  const running: ChildProcess[] = [];

  beforeAll(async () => {
    provider = await startFakeProvider();
    vendor = http.createServer(async (request, response) => {
      const body = await text(request.setEncoding('latin1'));
      received.push({ path: request.url ?? '', headers: request.headers, body });
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
    await once(vendor.listen(0, '127.0.0.1'), 'listening');
    vendorURL = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`;
  });

  afterAll(async () => {
    for (const child of running) child.kill('SIGKILL');
    vendor.closeAllConnections();
    vendor.close();
    await provider.close();
  });

  /** Runs the documented app with a recipe through one completion, and returns what it printed. */
  async function run(recipe: string, env: Record<string, string>, variables = ''): Promise<string> {
    received = [];
    provider.answer(completion());
    const folder = `${FOLDER}${recipe.replaceAll(/\W+/g, '-').slice(0, 40)}/`;
    const port = await freePort();
    const here = (source: string): string =>
      source
        .replace('process.env.OPENAI_API_KEY', `'sk-test', baseURL: '${provider.baseURL}'`)
        .replace('8787', String(port));
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${folder}telemetry.mjs`, here(recipe));
    writeFileSync(`${folder}server.mjs`, here(documentedBlock('observability.md', 'server.mjs')));
    const { PATH } = process.env;
    const child = spawn('sh', ['-c', `${variables}\nexec "$0" --no-warnings server.mjs`, process.execPath], {
      cwd: folder,
      env: { PATH, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    running.push(child);
    const stderr = text(child.stderr);
    let stdout = '';
    const key = new Promise<string>((resolve, reject) => {
      child.stdout.setEncoding('utf8').on('data', (piece: string) => {
        stdout += piece;
        const [found] = /sk-ccr-\w{48}\n/.exec(stdout) ?? [];
        if (found) resolve(found.trim());
      });
      child.once('exit', async () => reject(new Error(`The program ended: ${await stderr}`)));
    });
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${await key}`,
        'content-type': 'application/json',
        connection: 'close',
      },
      body: JSON.stringify({ model: 'openai/gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] }),
    });
    expect(response.status).toBe(200);
    await response.text();
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    const [code] = (await exited) as [number | null];
    expect(`${await stderr}${code}`).toBe('0');
    return stdout;
  }

  const OTLP = (): string => documentedBlock('observability.md', 'telemetry-otlp.mjs');
  /** The variables of a vendor, with its address replaced by that of the server that stands for it. */
  const variablesOf = (name: string): string =>
    fenced('sh', name).replace(/(OTEL_EXPORTER_OTLP_ENDPOINT=)https?:\/\/[^/\s]+/, `$1${vendorURL}`);

  it('send spans to Langfuse, as it wants them', async () => {
    const env = { LANGFUSE_PUBLIC_KEY: 'pk-lf-1', LANGFUSE_SECRET_KEY: 'sk-lf-2' };
    await run(OTLP(), env, variablesOf('langfuse.env'));
    expect(new Set(received.map(({ path }) => path))).toEqual(new Set(['/api/public/otel/v1/traces']));
    const [{ headers, body } = { headers: {}, body: '' }] = received;
    expect(headers).toMatchObject({
      authorization: `Basic ${Buffer.from('pk-lf-1:sk-lf-2').toString('base64')}`,
      'x-langfuse-ingestion-version': '4',
      'content-type': 'application/x-protobuf',
    });
    for (const part of ['chat-gateway', 'chat gpt-4o-mini', 'gen_ai.usage.input_tokens', 'ccr.charged_usd'])
      expect(body).toContain(part);
    expect(body).not.toMatch(/sk-ccr-|Hello/);
  });

  it.each([
    ['Grafana Cloud', 'grafana.env', '/otlp'],
    ['the Agent of Datadog', 'datadog.env', ''],
  ])('send spans and metrics to %s', async (_vendor, name, prefix) => {
    await run(OTLP(), { GRAFANA_INSTANCE_ID: '1', GRAFANA_TOKEN: 'glc_2' }, variablesOf(name));
    const paths = new Set(received.map(({ path }) => path));
    expect(paths).toEqual(new Set([`${prefix}/v1/traces`, `${prefix}/v1/metrics`]));
    const bodies = received.map(({ body }) => body).join('');
    for (const part of ['chat gpt-4o-mini', 'gen_ai.client.operation.duration', 'ccr.charged'])
      expect(bodies).toContain(part);
  });

  it('hand spans to the tracer of Datadog', async () => {
    await run(documentedBlock('observability.md', 'telemetry-datadog.mjs'), {
      DD_TRACE_AGENT_URL: vendorURL,
      DD_INSTRUMENTATION_TELEMETRY_ENABLED: 'false',
      DD_REMOTE_CONFIGURATION_ENABLED: 'false',
    });
    const traces = received.filter(({ path }) => path.endsWith('/traces')).map(({ body }) => body);
    expect(traces.join('')).toContain('chat gpt-4o-mini');
    expect(traces.join('')).toContain('ccr.charged_usd');
  });

  it('send errors of the router to Sentry, and none of a provider', async () => {
    const recipe = `${documentedBlock('observability.md', 'telemetry-sentry.mjs')}
const [{ onError, onLedgerEvent }] = hooks;
console.error = () => {};
onError(Object.assign(new Error('of a provider'), { provider: 'openai' }), { requestId: 'r1' });
onError(new Error('of the router'), { requestId: 'r2' });
onLedgerEvent({ type: 'account_lost', account: 'acme' });
onLedgerEvent({ type: 'store_recovered', awayMs: 1 });
`;
    await run(recipe, { SENTRY_DSN: vendorURL.replace('://', '://public@').concat('/7') });
    expect(new Set(received.map(({ path }) => path.split('?')[0]))).toEqual(new Set(['/api/7/envelope/']));
    const events = received.map(({ body }) => body).join('\n');
    expect(events).toContain('of the router');
    expect(events).toContain('"requestId":"r2"');
    expect(events).toContain('ledger: account_lost');
    expect(events).not.toMatch(/"value":"(of a provider|ledger: store_recovered)/);
  });

  it('log a line as it is shown', async () => {
    const [, line = ''] = /^```json\n(\{\s+"level".*?)^```/ms.exec(PAGE) ?? [];
    const shown = Object.keys(JSON.parse(line) as object);
    const recipe = `import { pino } from 'pino';
const log = pino();
export const hooks = [{ onResponse: (ended) => log.info(ended, 'response') }];
export const shutdown = () => {};`;
    const printed = await run(recipe, {});
    const [logged = '{}'] = printed.split('\n').filter((each) => each.startsWith('{"level"'));
    expect(Object.keys(JSON.parse(logged) as object)).toEqual(expect.arrayContaining(shown));
  });

  it('have configurations that Datadog can read', () => {
    expect(parseYaml(fenced('yaml', 'datadog.yaml'))).toEqual({
      otlp_config: { receiver: { protocols: { http: { endpoint: 'localhost:4318' } } } },
    });
    expect(parseYaml(fenced('yaml', 'conf.d/openmetrics.d/conf.yaml'))).toMatchObject({
      instances: [{ openmetrics_endpoint: 'http://localhost:8787/metrics', metrics: ['ccr_.*'] }],
    });
  });

  it('have alerts on metrics that exist', () => {
    const names = new Set(
      createPrometheusMetrics()
        .text()
        .match(/(?<=# TYPE )ccr_\w+/g),
    );
    const { groups } = parseYaml(fenced('yaml', 'alerts.yml')) as {
      groups: { rules: { alert: string; expr: string }[] }[];
    };
    const expressions = groups.flatMap(({ rules }) => rules.map(({ expr }) => expr));
    expect(expressions.length).toBeGreaterThan(3);
    for (const expression of expressions) {
      for (const [name] of expression.matchAll(/ccr_\w+/g)) expect(names).toContain(name);
      for (const [open, close] of ['()', '{}', '[]'])
        expect(expression.split(open!).length).toBe(expression.split(close!).length);
    }
  });
});

/** Reads YAML with the package of this area, which the rest of the project doesn't have. */
function parseYaml(input: string): unknown {
  const program = `import { parse } from 'yaml';
import { text } from 'node:stream/consumers';
console.log(JSON.stringify(parse(await text(process.stdin))));`;
  const cwd = import.meta.dirname;
  const args = ['--input-type=module', '-e', program];
  return JSON.parse(spawnSync(process.execPath, args, { cwd, input, encoding: 'utf8' }).stdout);
}

/** A block of the page whose first line is `# name`. */
function fenced(language: string, name: string): string {
  const [, block] = new RegExp(`^\`\`\`${language}\\n# ${name}\\n(.*?)^\`\`\``, 'ms').exec(PAGE) ?? [];
  if (block === undefined) throw new Error(`docs/observability.md has no block that begins with # ${name}`);
  return block;
}
