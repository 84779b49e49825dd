import OpenAI, { ConflictError } from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, answerStream, completionBody, type Script, STREAM } from '../../helpers/provider.ts';

/** 9 prompt and 12 completion tokens at 1,000 and 3,000 nano-dollars. */
const ONE_CHARGE = '0.000045';

describe('a request with an Idempotency-Key', () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  const named = (name: string): RequestInit => ({ headers: { 'idempotency-key': name } });
  const spent = async (): Promise<string> => (await gateway.router.credits.balance('acct')).totalUsed;

  /** Asks, and waits for what it cost to be posted. */
  async function askAndSettle(body: unknown, init: RequestInit): Promise<Response> {
    const settled = gateway.nextSettled();
    const response = await gateway.post(body, init);
    await response.clone().text();
    await settled;
    return response;
  }

  it('that runs is not sent a second time: it is asked to retry', async () => {
    const gate = new Gate();
    gateway.provider.script = gate.before(answerJson(completionBody()));
    const arrived = gateway.provider.next();
    const first = gateway.post(QUESTION, named('order-1'));
    await arrived;
    const second = await gateway.post(QUESTION, named('order-1'));
    expect(second.status).toBe(409);
    expect(second.headers.get('x-should-retry')).toBe('true');
    expect(second.headers.get('retry-after')).toBe('1');
    const error = await errorOf(second);

    const settled = gateway.nextSettled();
    gate.open();
    const id = (await first).headers.get('x-request-id') ?? '';
    expect(error).toEqual({
      message: `A request with this Idempotency-Key is still running: ${id}.`,
      type: 'invalid_request_error',
      param: null,
      code: 'request_in_progress',
      original_request_id: id,
    });
    await settled;
    expect(gateway.provider.received).toHaveLength(1);
    expect(await spent()).toBe(ONE_CHARGE);
  });

  it('that was charged is not sent a second time', async () => {
    const first = await askAndSettle(QUESTION, named('order-1'));
    const second = await gateway.post(QUESTION, named('order-1'));
    expect(second.status).toBe(409);
    expect(second.headers.get('x-should-retry')).toBe('false');
    expect(second.headers.get('retry-after')).toBeNull();
    expect(await errorOf(second)).toMatchObject({
      code: 'request_already_processed',
      original_request_id: first.headers.get('x-request-id'),
    });
    expect(gateway.provider.received).toHaveLength(1);
    expect(await spent()).toBe(ONE_CHARGE);
  });

  it('is charged once by a client that left in the middle and came again', async () => {
    gateway.provider.script = answerStream(STREAM, 20);
    const settled = gateway.nextSettled();
    const leaving = new AbortController();
    const left = await gateway.post(
      { ...QUESTION, stream: true },
      { ...named('order-1'), signal: leaving.signal },
    );
    await left.body?.getReader().read();
    leaving.abort();
    const { charged } = await settled;
    const again = await gateway.post({ ...QUESTION, stream: true }, named('order-1'));
    expect(again.status).toBe(409);
    expect(await spent()).toBe(charged);
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('that failed may be sent again with the same key', async () => {
    gateway.provider.script = answerJson('{"error":{"message":"overloaded"}}', 503);
    const failed = await askAndSettle(QUESTION, named('order-1'));
    expect(failed.status).toBe(503);
    gateway.provider.script = answerJson(completionBody());
    const second = await askAndSettle(QUESTION, named('order-1'));
    expect(second.status).toBe(200);
    expect(await spent()).toBe(ONE_CHARGE);
  });

  it('that was refused may be sent again with the same key', async () => {
    const refused = await gateway.post({ ...QUESTION, model: 'acme/none' }, named('order-1'));
    expect(refused.status).toBe(404);
    expect((await askAndSettle(QUESTION, named('order-1'))).status).toBe(200);
  });

  it('is refused where the key was that of another body', async () => {
    const first = await askAndSettle(QUESTION, named('order-1'));
    const other = await gateway.post({ ...QUESTION, temperature: 1 }, named('order-1'));
    expect(other.status).toBe(422);
    expect(other.headers.get('x-should-retry')).toBe('false');
    expect(await errorOf(other)).toEqual({
      message: `This Idempotency-Key was used for a request with a different body: ${first.headers.get('x-request-id')}.`,
      type: 'invalid_request_error',
      param: null,
      code: 'idempotency_key_reused',
      original_request_id: first.headers.get('x-request-id'),
    });
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('with a body of many slices is distinguished from one that differs in its last byte', async () => {
    gateway.provider.script = answerJson(completionBody());
    const long = (end: string): unknown => {
      const image_url = { url: `data:image/png;base64,${'A'.repeat(3 * 1024 * 1024)}${end}` };
      return {
        ...QUESTION,
        max_tokens: 9,
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url }] }],
      };
    };
    expect((await askAndSettle(long('A'), named('order-1'))).status).toBe(200);
    expect((await gateway.post(long('A'), named('order-1'))).status).toBe(409);
    expect((await gateway.post(long('B'), named('order-1'))).status).toBe(422);
  });

  it('is not that of another API key or account', async () => {
    const { key: second } = await gateway.router.keys.create({ account: 'acct', name: 'second' });
    const { key: other } = await gateway.router.keys.create({ account: 'other', name: 'other' });
    await gateway.router.credits.grant('other', '5.00', { id: 'welcome' });
    for (const key of [gateway.key, second, other]) {
      const headers = { 'idempotency-key': 'order-1', authorization: `Bearer ${key}` };
      expect((await askAndSettle(QUESTION, { headers })).status).toBe(200);
    }
    expect(gateway.provider.received).toHaveLength(3);
    expect(await spent()).toBe('0.00009');
  });

  it('is that of the caller whom the host names', async () => {
    const hosted = await startGateway({
      authenticate: (apiKey) => ({ account: 'acct', key: apiKey }),
    });
    const ask = async (key: string): Promise<number> => {
      const headers = { 'idempotency-key': 'order-1', authorization: `Bearer ${key}` };
      return (await hosted.post(QUESTION, { headers })).status;
    };
    const settled = hosted.nextSettled();
    expect(await ask('ann')).toBe(200);
    await settled;
    expect(await ask('ann')).toBe(409);
    expect(await ask('bob')).toBe(200);
    await hosted.close();
  });

  it('does not take its key to the provider', async () => {
    await askAndSettle(QUESTION, named('order-1'));
    const [received] = gateway.provider.received;
    expect(received?.headers).not.toHaveProperty('idempotency-key');
    expect(JSON.stringify(received?.rawHeaders)).not.toContain('order-1');
  });

  it.each([
    ['empty', ''],
    ['longer than 255 characters', 'x'.repeat(256)],
    ['in two words', 'order 1'],
    ['beyond ASCII', 'ördér'],
  ])('is refused before its body is looked at when the key is %s', async (_what, name) => {
    const response = await gateway.post('not JSON', { headers: { 'idempotency-key': name } });
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({ code: 'invalid_idempotency_key', param: null });
    expect(response.headers.get('x-should-retry')).toBe('false');
  });

  it('may have a key of 1 or of 255 characters', async () => {
    for (const name of ['1', '~'.repeat(255)]) {
      expect((await askAndSettle(QUESTION, named(name))).status).toBe(200);
      expect((await gateway.post(QUESTION, named(name))).status).toBe(409);
    }
  });

  it('is reported to the official client as a conflict that it does not repeat', async () => {
    const client = new OpenAI({ baseURL: gateway.baseURL, apiKey: gateway.key, maxRetries: 2 });
    const options = { headers: { 'Idempotency-Key': 'order-1' } };
    const settled = gateway.nextSettled();
    await client.chat.completions.create(QUESTION, options);
    await settled;
    const again = await client.chat.completions.create(QUESTION, options).catch((error: unknown) => error);
    expect(again).toBeInstanceOf(ConflictError);
    expect(again).toMatchObject({ status: 409, code: 'request_already_processed' });
    expect(gateway.provider.received).toHaveLength(1);
  });

  it('is charged once though the official client repeats it by itself', async () => {
    await gateway.close();
    gateway = await startGateway({ retries: false });
    const client = new NamingClient({ baseURL: gateway.baseURL, apiKey: gateway.key, maxRetries: 2 });
    let tries = 0;
    gateway.provider.script = (response, request) => {
      tries += 1;
      const script =
        tries === 1 ? answerJson('{"error":{"message":"overloaded"}}', 503) : answerJson(completionBody());
      return script(response, request);
    };
    const settled = gateway.nextSettled().then(() => gateway.nextSettled());
    await client.chat.completions.create(QUESTION);
    await settled;
    expect(tries).toBe(2);
    expect(await spent()).toBe(ONE_CHARGE);
  });

  it('is sent once when the official client gives up on it and repeats it', async () => {
    const gate = new Gate();
    gateway.provider.script = gate.before(answerJson(completionBody()));
    const client = new NamingClient({
      baseURL: gateway.baseURL,
      apiKey: gateway.key,
      maxRetries: 1,
      timeout: 200,
    });
    const settled = gateway.nextSettled();
    const asked = client.chat.completions.create(QUESTION).catch((error: unknown) => error);
    expect(await asked).toBeInstanceOf(ConflictError);
    await settled;
    gate.open();
    expect(gateway.provider.received).toHaveLength(1);
  });
});

describe('a request without an Idempotency-Key', () => {
  it('is charged as often as it is sent', async () => {
    const gateway = await startGateway();
    for (let n = 0; n < 2; n++) {
      const settled = gateway.nextSettled();
      expect((await gateway.post(QUESTION)).status).toBe(200);
      await settled;
    }
    expect((await gateway.router.credits.balance('acct')).totalUsed).toBe('0.00009');
    await gateway.close();
  });
});

/** The official client as its options let one make it: every request is named, and a repetition has the same name. */
class NamingClient extends OpenAI {
  protected override idempotencyHeader = 'Idempotency-Key';
}

/** Holds back a provider's answer until it is opened. */
class Gate {
  open: () => void = () => {};
  readonly #opened = new Promise<void>((resolve) => {
    this.open = resolve;
  });

  before(script: Script): Script {
    return async (response, request) => {
      await this.#opened;
      await script(response, request);
    };
  }
}

async function errorOf(response: Response): Promise<unknown> {
  const { error } = (await response.json()) as { error: unknown };
  return error;
}
