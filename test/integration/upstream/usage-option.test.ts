import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Settled } from '../../../src/index.ts';
import { type Gateway, PRICING, QUESTION, startGateway } from '../../helpers/gateway.ts';
import {
  answerJson,
  answerStream,
  DONE,
  event,
  type Script,
  text,
  USAGE,
  USAGE_EVENT,
} from '../../helpers/provider.ts';

const BEGIN = [text('Hello'), text(' there'), text('.', 'stop')];
/** Usage on the chunk that ends the choice, unasked. */
const BEGIN_WITH_USAGE = [
  text('Hello there.'),
  event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: USAGE }),
];

const PYDANTIC = JSON.stringify({
  object: 'error',
  message: {
    detail: [
      { type: 'extra_forbidden', loc: ['body', 'stream_options'], msg: 'Extra inputs are not permitted' },
    ],
  },
});

function optionsIn(body: Buffer): Record<string, unknown> | undefined {
  return (JSON.parse(body.toString()) as { stream_options?: Record<string, unknown> }).stream_options;
}

/** Sends usage to those who ask for it. */
const supports: Script = (response, request) => {
  const asked = optionsIn(request.body)?.['include_usage'] === true;
  return answerStream([...BEGIN, ...(asked ? [USAGE_EVENT] : []), DONE])(response, request);
};
/** Refuses the field, and sends usage unasked. */
const rejects: Script = (response, request) =>
  optionsIn(request.body)
    ? answerJson(PYDANTIC, 400)(response, request)
    : answerStream([...BEGIN_WITH_USAGE, DONE])(response, request);
/** Whatever is asked for. */
const sendsAlways: Script = answerStream([...BEGIN, USAGE_EVENT, DONE]);

describe('usage of a stream', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    await gateway.close();
  });

  /** What came of one request: what the client saw, and what it paid. */
  async function ask(
    fields: object,
    model = 'acme/fast',
  ): Promise<{ status: number; body: string; paid: Settled }> {
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, model, stream: true, ...fields });
    return { status: response.status, body: await response.text(), paid: await settled };
  }

  const CLIENTS: readonly (readonly [client: string, fields: object])[] = [
    ['says nothing', {}],
    ['asks for usage', { stream_options: { include_usage: true } }],
    ['wants none', { stream_options: { include_usage: false } }],
    ['has another option', { stream_options: { include_obfuscation: false } }],
  ];

  describe.each(CLIENTS)('for a client that %s', (client, fields) => {
    const sees = client === 'asks for usage';

    it('is charged where the provider takes the option, and seen by a client that asked', async () => {
      gateway.provider.script = supports;
      const { status, body, paid } = await ask(fields);
      expect(status).toBe(200);
      expect(body).toBe([...BEGIN, ...(sees ? [USAGE_EVENT] : []), DONE].join(''));
      expect(paid).toMatchObject({ charged: '0.000045', usageSource: 'upstream' });
      expect(gateway.provider.received).toHaveLength(1);
    });

    it('is charged where the provider sends it always', async () => {
      gateway.provider.script = sendsAlways;
      const { body, paid } = await ask(fields);
      expect(body).toBe([...BEGIN, ...(sees ? [USAGE_EVENT] : []), DONE].join(''));
      expect(paid).toMatchObject({ charged: '0.000045', usageSource: 'upstream' });
    });
  });

  it('is charged where the provider refuses the option, which a client that says nothing never hears of', async () => {
    gateway.provider.script = rejects;
    const { status, body, paid } = await ask({});
    expect(status).toBe(200);
    expect(body).toBe([...BEGIN_WITH_USAGE, DONE].join(''));
    expect(paid).toMatchObject({ charged: '0.000045', usageSource: 'upstream' });
    const sent = gateway.provider.received.map((request) => optionsIn(request.body));
    expect(sent).toEqual([{ include_usage: true }, undefined]);
  });

  it.each(CLIENTS.slice(1))(
    'costs nothing where the provider refuses the option of a client that %s: it sees that',
    async (_client, fields) => {
      gateway.provider.script = rejects;
      const { status, body, paid } = await ask(fields);
      expect(status).toBe(400);
      expect(body).toBe(PYDANTIC);
      expect(paid).toMatchObject({ charged: '0.00', voided: true });
      const last = gateway.provider.received.at(-1)!.body;
      expect({ stream_options: optionsIn(last) }).toEqual(fields);
    },
  );
});

describe('a provider that refuses the option', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway({
      models: Object.fromEntries(
        ['one', 'two', 'alias'].map((id) => [
          id,
          {
            targets: [`loopback/${id === 'alias' ? 'one' : id}`],
            pricing: PRICING,
            contextWindow: 8192,
            maxOutputTokens: 100,
          },
        ]),
      ),
    });
    gateway.provider.script = rejects;
  });

  afterEach(async () => {
    await gateway.close();
  });

  const ask = async (model = 'one', fields: object = {}): Promise<string> => {
    const response = await gateway.post({ ...QUESTION, model, stream: true, ...fields });
    return response.text();
  };

  it('is not asked again for that model, under whatever ID, but for its others', async () => {
    await ask('one');
    await ask('one');
    await ask('alias');
    expect(gateway.provider.received).toHaveLength(4);
    await ask('two');
    expect(gateway.provider.received).toHaveLength(6);
  });

  it.each([
    ['422', 422, PYDANTIC],
    [
      'OpenAI’s words',
      400,
      '{"error":{"message":"Unrecognized request argument supplied: stream_options","param":null}}',
    ],
    [
      'Gemini’s words',
      400,
      '[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \\"stream_options\\"","status":"INVALID_ARGUMENT"}}]',
    ],
    ['OpenAI’s param', 400, '{"error":{"message":"Not here.","param":"stream_options.include_usage"}}'],
    [
      'Go’s words',
      400,
      '{"error":{"message":"json: unknown field \\"stream_options\\"","type":"api_error"}}',
    ],
    ['FastAPI’s list', 422, '{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"]}]}'],
  ])('is understood by %s', async (_words, status, body) => {
    gateway.provider.script = (response, request) =>
      optionsIn(request.body)
        ? answerJson(body, status)(response, request)
        : answerStream([...BEGIN_WITH_USAGE, DONE])(response, request);
    expect(await ask()).toBe([...BEGIN_WITH_USAGE, DONE].join(''));
    expect(gateway.provider.received).toHaveLength(2);
  });

  it('is asked again for it after a minute: what refused may have been one server of many', async () => {
    await ask();
    gateway.provider.script = supports;
    await ask();
    expect(optionsIn(gateway.provider.received.at(-1)!.body)).toBeUndefined();
    const startedAt = performance.now();
    const clock = vi.spyOn(performance, 'now').mockReturnValue(startedAt + 59_000);
    await ask();
    expect(optionsIn(gateway.provider.received.at(-1)!.body)).toBeUndefined();
    clock.mockReturnValue(startedAt + 60_000);
    await ask();
    clock.mockRestore();
    expect(optionsIn(gateway.provider.received.at(-1)!.body)).toEqual({ include_usage: true });
  });

  it('that refuses the request for another reason as well is still asked for usage', async () => {
    // A client that can put the words into an error must not take usage from everybody.
    const refusal = '{"error":{"message":"Invalid tool name: stream_options"}}';
    gateway.provider.script = answerJson(refusal, 400);
    expect(await ask()).toBe(refusal);
    gateway.provider.script = supports;
    await ask();
    expect(optionsIn(gateway.provider.received.at(-1)!.body)).toEqual({ include_usage: true });
  });

  it.each([
    ['another 400', 400, '{"error":{"message":"messages: too long"}}'],
    // A client can make a provider say each of these.
    ['a quotation', 400, '{"error":{"message":"Invalid tool name: stream_options"}}'],
    [
      'a URL',
      400,
      '{"error":{"message":"Can not load https://example.com/include_usage","param":"messages"}}',
    ],
    ['a field inside', 400, '{"error":{"message":"Unknown parameter","param":"tools[0].stream_options"}}'],
    [
      'some unknown field',
      422,
      '{"detail":[{"type":"extra_forbidden","loc":["body","x","stream_options"]}]}',
    ],
    ['another status', 413, PYDANTIC],
    ['an empty body', 400, ''],
  ])('is not taken for one by %s, which the client sees as it is', async (_shape, status, body) => {
    gateway.provider.script = answerJson(body, status, { 'retry-after': '7' });
    const response = await gateway.post({ ...QUESTION, model: 'one', stream: true });
    expect([response.status, await response.text()]).toEqual([status, body]);
    expect(response.headers.get('retry-after')).toBe('7');
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('is not asked twice for an answer that is no stream', async () => {
    gateway.provider.script = answerJson(PYDANTIC, 400);
    const response = await gateway.post({ ...QUESTION, model: 'one' });
    expect(await response.text()).toBe(PYDANTIC);
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('may send a long error, of which the client gets every byte', async () => {
    const long = JSON.stringify({ error: { message: 'x'.repeat(1_000_000) } });
    gateway.provider.script = answerJson(long, 400);
    expect(await ask()).toBe(long);
  });

  it('may leave its error unfinished: the client gets what there is, in time', async () => {
    gateway.provider.script = (response) => {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.write('{"error":{"message":"oh');
    };
    const response = await gateway.post({ ...QUESTION, model: 'one', stream: true });
    const { value = Buffer.of() } = await response.body!.getReader().read();
    expect(Buffer.from(value).toString()).toBe('{"error":{"message":"oh');
  });

  it.each([400, 403, 422, 500])(
    'costs nothing when the client leaves after the head of a %i',
    async (status) => {
      const settled = gateway.nextSettled();
      const leave = new AbortController();
      gateway.provider.script = (response) => {
        response.writeHead(status, { 'content-type': 'application/json' });
        response.write(PYDANTIC);
        setTimeout(() => leave.abort(), 20);
      };
      await expect(
        gateway.post({ ...QUESTION, model: 'one', stream: true }, { signal: leave.signal }),
      ).rejects.toThrow('abort');
      expect(await settled).toMatchObject({ charged: '0.00', voided: true, ending: 'client_gone' });
      expect(gateway.provider.received).toHaveLength(1);
    },
  );
});
