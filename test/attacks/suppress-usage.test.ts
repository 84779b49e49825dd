import { afterEach, describe, expect, it } from 'vitest';

import { chunk, DONE, type Script, stream } from '../../src/testing.ts';
import { type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';

/** The provider's bill: 9 prompt tokens at 1,000 nano-dollars, 900 of output at 3,000, of which one word is shown. */
const BILL = '0.002709';
const USAGE = {
  prompt_tokens: 9,
  completion_tokens: 900,
  completion_tokens_details: { reasoning_tokens: 899 },
};

/** Tells usage to those who ask for it in a way that their JSON parser reads as yes. */
function tellsWhere(asks: (body: Record<string, unknown>) => boolean): Script {
  return (response, request) => {
    const told = asks(JSON.parse(request.body.toString()) as Record<string, unknown>);
    const usage = told ? [chunk({ choices: [], usage: USAGE })] : [];
    return stream(chunk('Yes', 'stop'), ...usage, DONE)(response, request);
  };
}

/** As OpenAI does: only a plain true is one. */
const byOption = tellsWhere(
  ({ stream_options: options }) =>
    (options as { include_usage?: unknown } | undefined)?.include_usage === true,
);
/** Unasked, but not to those who say no. */
const unlessDenied = tellsWhere(
  ({ stream_options: options }) =>
    (options as { include_usage?: unknown } | undefined)?.include_usage !== false,
);

describe('a client that suppresses the usage of its streams', () => {
  let gateway: Gateway;

  afterEach(async () => {
    await gateway.close();
  });

  /** Asks with a member written as text. */
  const ask = (member: string): Promise<Response> =>
    gateway.post(
      `{"model":"acme/fast","messages":${JSON.stringify(QUESTION.messages)},"stream":true,${member}}`,
    );

  it.each([
    ['stream_options.include_usage', '"stream_options":{"include_usage":0}'],
    ['stream_options.include_usage', '"stream_options":{"include_usage":"no"}'],
    ['stream_options.include_usage', '"stream_options":{"include_usage":[]}'],
    ['stream_options.include_usage', '"stream_options":{"include_usage":true,"include_usage":false}'],
    [
      'stream_options.include_usage',
      String.raw`"stream_options":{"include_usage":true,"include_us\u0061ge":0}`,
    ],
    ['stream_options.include_usage', '"stream_options":{"INCLUDE_USAGE":false}'],
    ['stream_options', '"stream_options":0'],
    ['stream_options', '"stream_options":"none"'],
    ['stream_options', '"stream_options":[]'],
    ['stream_options', '"stream_options":{},"stream_options":null'],
    ['extra_body.stream_options', '"extra_body":{"stream_options":{"include_usage":false}}'],
  ])('is refused, with the name of %s: %s', async (param, member) => {
    gateway = await startGateway();
    gateway.provider.script = byOption;
    const response = await ask(member);
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    expect(error).toMatchObject({ type: 'invalid_request_error', param });
    expect(gateway.provider.received).toEqual([]);
  });

  it.each([
    '"stream_options":{"include_usage":false}',
    '"stream_options":{"include_usage":null}',
    '"stream_options":{}',
    '"stream_options":null',
  ])("pays the provider's bill, and sees no usage: %s", async (member) => {
    gateway = await startGateway();
    gateway.provider.script = byOption;
    const settled = gateway.nextSettled();
    expect(await (await ask(member)).text()).not.toContain('"usage"');
    expect(await settled).toMatchObject({ charged: BILL, usageSource: 'upstream' });
  });

  it('pays it where the provider sends usage unasked, too', async () => {
    gateway = await startGateway({ provider: { streamUsage: 'native' } });
    gateway.provider.script = unlessDenied;
    const settled = gateway.nextSettled();
    expect(await (await ask('"stream_options":{"include_usage":false}')).text()).not.toContain('"usage"');
    expect(await settled).toMatchObject({ charged: BILL, usageSource: 'upstream' });
  });
});
