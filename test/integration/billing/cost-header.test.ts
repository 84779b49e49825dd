import { afterEach, describe, expect, it } from 'vitest';

import { type ChatCompletionsRouterOptions, createChatCompletionsRouter } from '../../../src/index.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { answerJson, answerStream, completionBody, type Script, STREAM } from '../../helpers/provider.ts';

let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
});

async function ask(
  script: Script,
  more: object = {},
  options: Partial<ChatCompletionsRouterOptions> = { costHeader: true },
): Promise<Response> {
  gateway = await startGateway(options);
  gateway.provider.script = script;
  return gateway.post({ ...QUESTION, ...more });
}

/** An answer in pieces, as a provider sends one that it doesn't know the length of. */
function inPieces(body: string, pieces: number): Script {
  return (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const size = Math.ceil(body.length / pieces);
    const send = (from: number): void => {
      if (from >= body.length) response.end();
      else response.write(body.slice(from, from + size), () => setImmediate(send, from + size));
    };
    send(0);
  };
}

const longBody = (bytes: number): string =>
  completionBody({ choices: [{ index: 0, message: { content: 'a'.repeat(bytes) }, finish_reason: 'stop' }] });

describe('costHeader', () => {
  it.each<[string, Script]>([
    ['at once', answerJson(completionBody())],
    ['in pieces', inPieces(completionBody(), 5)],
  ])('tells what an answer is charged that comes %s, whose bytes stay as they are', async (_how, script) => {
    const response = await ask(script);
    expect(response.headers.get('x-ccr-cost')).toBe('0.000045');
    expect(await response.text()).toBe(completionBody());
    const [settled] = gateway.settled.length > 0 ? gateway.settled : [await gateway.nextSettled()];
    expect(settled?.charged).toBe('0.000045');
  });

  it('tells that a refusal of the provider costs nothing', async () => {
    const response = await ask(answerJson('{"error":{"message":"too long"}}', 400));
    expect([response.status, response.headers.get('x-ccr-cost')]).toEqual([400, '0.00']);
  });

  it('is not of a stream, which begins at once', async () => {
    const response = await ask(answerStream(STREAM), { stream: true });
    expect(response.headers.get('x-ccr-cost')).toBeNull();
    expect(await response.text()).toContain('[DONE]');
  });

  it('is not of an answer of more than 1 MiB, which is passed on as it comes', async () => {
    const body = longBody(1024 * 1024);
    const response = await ask(inPieces(body, 20));
    expect(response.headers.get('x-ccr-cost')).toBeNull();
    expect(await response.text()).toBe(body);
  });

  it('is of one that is just short of that', async () => {
    const body = longBody(1024 * 1024 - 1024);
    const response = await ask(inPieces(body, 20));
    expect(response.headers.get('x-ccr-cost')).toBe('0.000045');
    expect(await response.text()).toBe(body);
  });

  it('makes no cut answer look finished', async () => {
    const body = completionBody();
    const asked = ask((response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
      response.write(body.slice(0, 40), () => response.destroy());
    });
    await expect(asked.then((response) => response.text())).rejects.toThrow(/terminated|fetch failed/);
    const [settled] = gateway.settled.length > 0 ? gateway.settled : [await gateway.nextSettled()];
    expect(settled).toMatchObject({ ending: 'upstream_cut', voided: true });
  });

  it('leaves out what nobody asked for', async () => {
    const response = await ask(answerJson(completionBody()), {}, {});
    expect(response.headers.get('x-ccr-cost')).toBeNull();
  });

  it('is a boolean', async () => {
    gateway = await startGateway();
    const wrong = { providers: {}, models: {}, costHeader: 'yes' as never };
    expect(() => createChatCompletionsRouter(wrong)).toThrow('costHeader must be a boolean, got "yes"');
  });
});
