import { readFileSync } from 'node:fs';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { type Hooks, type ResponseEnded, UpstreamAnswerError } from '../../../src/index.ts';
import { type Gateway, PROVIDER_KEY, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, answerStream, startProvider, STREAM } from '../../helpers/provider.ts';
import { collectTold } from '../../helpers/told.ts';
import { startTwoTargets } from '../faults/two-targets.ts';

type Started = Pick<Gateway, 'provider' | 'errors'> & {
  readonly post: (body: unknown) => Promise<Response>;
};

async function start(hooks: Hooks | readonly Hooks[] = {}): Promise<Started> {
  const errors: Error[] = [];
  const collects: Hooks = { onError: (error) => errors.push(error) };
  const gateway = await startGateway({ hooks: [collects, ...[hooks].flat()], retries: false });
  onTestFinished(() => gateway.close());
  return { provider: gateway.provider, post: (body) => gateway.post(body), errors };
}

const OVERLOADED = JSON.stringify({
  error: { message: `No capacity\nleft for ${PROVIDER_KEY}`, type: 'server_error', code: 'overloaded' },
});

describe('a provider whose error the client gets', () => {
  it.each([429, 500, 503])('is named to the operator with its own words: %d', async (status) => {
    const { provider, post, errors } = await start();
    provider.script = answerJson(OVERLOADED, status);
    const answer = await post(QUESTION);
    expect(answer.status).toBe(status);
    expect(await answer.text()).toBe(OVERLOADED.replace(PROVIDER_KEY, '*'.repeat(PROVIDER_KEY.length)));
    expect(errors).toEqual([expect.any(UpstreamAnswerError)]);
    expect(errors).toMatchObject([
      {
        code: 'upstream_error_status',
        provider: 'loopback',
        model: 'upstream-model',
        attempt: 1,
        status,
        cause: {
          name: 'ProviderError',
          message: `No capacity left for ${'*'.repeat(PROVIDER_KEY.length)}`,
          status,
          code: 'overloaded',
        },
      },
    ]);
  });

  it('is named for a model that it does not have', async () => {
    const { provider, post, errors } = await start();
    provider.script = answerJson('{"error":{"message":"no such model","status":"NOT_FOUND"}}', 404);
    await post(QUESTION);
    expect(errors).toMatchObject([{ cause: { message: 'no such model', status: 404, code: 'NOT_FOUND' } }]);
  });

  it('is named though it gives no reason', async () => {
    const { provider, post, errors } = await start();
    provider.script = answerJson('not even JSON', 500);
    await post(QUESTION);
    expect(errors).toMatchObject([{ cause: { message: 'The provider gave no message.', status: 500 } }]);
  });

  it('is not reported for what the client got wrong', async () => {
    const { provider, post, errors } = await start();
    provider.script = answerJson('{"error":{"message":"temperature is too high"}}', 400);
    expect((await post(QUESTION)).status).toBe(400);
    expect(errors).toEqual([]);
  });

  it('is a line on stderr without a listener', async () => {
    const logged = vi.spyOn(console, 'error').mockReturnValue();
    onTestFinished(() => logged.mockRestore());
    const gateway = await startGateway({ hooks: { keepsDefaultLog: true }, retries: false });
    onTestFinished(() => gateway.close());
    gateway.provider.script = answerJson(OVERLOADED, 503);
    const answer = await gateway.post(QUESTION);
    expect(logged.mock.calls).toEqual([
      [
        'chat-completions-router:',
        answer.headers.get('x-request-id'),
        "upstream_error_status: The model's provider answered with status 503. The client got its answer. " +
          `(503 overloaded No capacity left for ${'*'.repeat(PROVIDER_KEY.length)}) [loopback/upstream-model, attempt 1]`,
      ],
    ]);
  });

  it('shows its code in the attempt, and no text', async () => {
    const ends = Promise.withResolvers<ResponseEnded>();
    const { provider, post } = await start({ onResponse: ends.resolve });
    provider.script = answerJson(OVERLOADED, 503);
    await post(QUESTION);
    const { attempts } = await ends.promise;
    expect(attempts).toMatchObject([{ status: 503, upstreamErrorCode: 'overloaded' }]);
    expect(JSON.stringify(attempts)).not.toContain('capacity');
  });
});

describe('an error whose message says that the operator has been notified', () => {
  it('is one of two, which the tests here cause', () => {
    const messages = readFileSync(new URL('../../unit/messages.txt', import.meta.url), 'utf8').split('\n');
    expect(messages.filter((line) => /operator has been|operator was|operators? know/i.test(line))).toEqual([
      'InternalError | The router failed on this request. Its operator has been notified.',
      "UpstreamError | The model's provider rejected this server's own credentials ({status}). The operator has been notified.",
    ]);
  });

  const REFUSALS = [
    [400, '{"error":{"message":"Incorrect API key provided: sk***et","code":"bad_key"}}'],
    [401, '{"error":{"message":"Incorrect API key provided: sk***et","code":"bad_key"}}'],
    [402, '{"error":{"message":"Incorrect API key provided: sk***et","code":"bad_key"}}'],
    [403, '{"error":{"message":"Incorrect API key provided: sk***et","code":"bad_key"}}'],
  ] as const;

  it.each(REFUSALS)('was told to onError: a %d about the key', async (status, body) => {
    const { provider, post, errors } = await start();
    provider.script = answerJson(body, status);
    const answer = await post(QUESTION);
    const { error } = (await answer.json()) as { error: { message: string } };
    expect(error.message).toBe(
      `The model's provider rejected this server's own credentials (${status}). The operator has been notified.`,
    );
    expect(errors).toMatchObject([
      {
        message: error.message,
        provider: 'loopback',
        model: 'upstream-model',
        attempt: 1,
        cause: { message: 'Incorrect API key provided: sk***et', status, code: 'bad_key' },
      },
    ]);
  });

  it.each(REFUSALS)('was told to onError, where there are several keys: a %d', async (status, body) => {
    const errors: Error[] = [];
    const provider = await startProvider(answerJson(body, status));
    onTestFinished(() => provider.close());
    const gateway = await startGateway({
      hooks: { onError: (error) => errors.push(error) },
      providers: { loopback: { baseURL: provider.baseURL, apiKeys: ['sk-one', 'sk-two'] } },
      retries: false,
    });
    onTestFinished(() => gateway.close());
    const answer = await gateway.post(QUESTION);
    expect(await answer.text()).toContain('The operator has been notified.');
    const origin = { provider: 'loopback', model: 'upstream-model', cause: { status, code: 'bad_key' } };
    expect(errors).toMatchObject([
      { ...origin, message: expect.stringContaining('key 1 of 2 is not used for one minute') },
      { ...origin, message: expect.stringContaining('key 2 of 2 is not used for one minute') },
      { ...origin, message: expect.stringContaining('The operator has been notified.'), attempt: 2 },
    ]);
  });
});

it('names the reason of a provider that refuses the key of the router', async () => {
  const { provider, post, errors } = await start();
  provider.script = answerJson(
    '{"error":{"message":"Wrong key sk-of-another-gateway","code":"invalid_api_key"}}',
    401,
  );
  expect((await post(QUESTION)).status).toBe(502);
  expect(errors).toMatchObject([
    {
      code: 'upstream_refused_credentials',
      provider: 'loopback',
      model: 'upstream-model',
      cause: { message: 'Wrong key ***', status: 401, code: 'invalid_api_key' },
    },
  ]);
});

it.each([
  ['an event', answerStream(['data: {"error":{"message":"out of memory","code":"oom"}}\n\n'])],
  [
    'an event after others',
    answerStream([...STREAM.slice(0, 2), 'data: {"error":{"message":"out of memory","code":"oom"}}\n\n']),
  ],
  ['a body', answerJson('{"error":{"message":"out of memory","code":"oom"}}', 200)],
])('is named where the client got %s with an error, and status 200', async (_what, script) => {
  const { provider, post, errors } = await start();
  provider.script = script;
  await (await post(QUESTION)).text();
  expect(errors).toMatchObject([
    {
      code: 'upstream_invalid_response',
      provider: 'loopback',
      model: 'upstream-model',
      attempt: 1,
      cause: { name: 'ProviderError', message: 'out of memory', status: 200, code: 'oom' },
    },
  ]);
});

it('shows the code of an error in place of a stream, which failover hid from the client', async () => {
  const told = collectTold();
  const two = await startTwoTargets({ hooks: [told.hooks] });
  onTestFinished(() => two.close());
  two.primary.answer(answerStream(['data: {"error":{"message":"out of memory","type":"engine_error"}}\n\n']));
  const next = told.next();
  await two.hear();
  expect((await next).attempts).toMatchObject([
    { provider: 'primary', status: 200, upstreamErrorCode: 'engine_error' },
    { provider: 'fallback', status: 200 },
  ]);
});

describe('a hook that fails', () => {
  it('keeps no error from the operator: both are logged', async () => {
    const logged = vi.spyOn(console, 'error').mockReturnValue();
    onTestFinished(() => logged.mockRestore());
    const { provider, post } = await start({
      onError: async () => {
        throw new Error('the pager is down');
      },
    });
    provider.script = answerJson(OVERLOADED, 503);
    await post(QUESTION);
    await vi.waitFor(() => expect(logged.mock.calls).toHaveLength(2));
    expect(logged.mock.calls.map((line) => String(line[2]))).toEqual([
      'Error: the pager is down',
      expect.stringContaining('No capacity left'),
    ]);
  });
});

describe('an internal_error', () => {
  it('is on stderr with its cause, as its message tells the client', async () => {
    const logged = vi.spyOn(console, 'error').mockReturnValue();
    onTestFinished(() => logged.mockRestore());
    const gateway = await startGateway({ hooks: { keepsDefaultLog: true } });
    onTestFinished(() => gateway.close());
    const metered = gateway.router.meter(
      () => {
        throw new TypeError('a bug');
      },
      { model: 'tool', price: '0.01' },
    );
    const answer = await metered.fetch(
      new Request('http://localhost/tool', {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.key}` },
      }),
    );
    expect(await answer.json()).toMatchObject({
      error: { code: 'internal_error', message: expect.stringContaining('operator has been notified') },
    });
    expect(logged.mock.calls).toEqual([
      [
        'chat-completions-router:',
        answer.headers.get('x-request-id'),
        expect.objectContaining({ cause: new TypeError('a bug') }),
      ],
    ]);
  });
});
