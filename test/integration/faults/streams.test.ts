import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  chunk,
  completion,
  DONE,
  drip,
  end,
  error,
  hang,
  hangUp,
  head,
  type Part,
  pause,
  reset,
  respond,
  type Script,
  sequence,
  stream,
  truncated,
} from '../../../src/testing.ts';
import { QUESTION, untilStill } from '../../helpers/gateway.ts';
import {
  ANSWER,
  FALLBACK_CHARGE,
  PRIMARY_CHARGE,
  startTwoTargets,
  type TwoTargets,
  WELL,
  WORDS,
} from './two-targets.ts';

// Hazards B1 to B8: what clients of gateways lose while an answer is streamed. Each with sockets, the official client
// and the money.

const EVENT_STREAM = { 'content-type': 'text/event-stream' };
const USAGE = { prompt_tokens: 9, completion_tokens: 60, total_tokens: 69 };

let two: TwoTargets;

beforeEach(async () => {
  two = await startTwoTargets();
});

afterEach(async () => {
  expect(await two.books()).toMatchObject({ held: '0.00' });
  await two.close();
});

function ask(fields: object = {}, options: OpenAI.RequestOptions = {}) {
  return two.gateway.client.chat.completions.create({ ...QUESTION, ...fields, stream: true }, options);
}

describe('B1 an event that is split over many reads', () => {
  const events = (lineEnd: string): string =>
    [
      ...WORDS.map((word) =>
        chunk({ model: 'main-model', choices: [{ index: 0, delta: { content: word } }] }),
      ),
      chunk({ model: 'main-model', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
      chunk({ model: 'main-model', choices: [], usage: USAGE }),
      DONE,
    ]
      .join('')
      .replaceAll('\n', lineEnd);

  it.each([
    ['LF, in pieces of 31 bytes', '\n', 31],
    ['CRLF, in pieces of 31 bytes', '\r\n', 31],
    ['CR, in pieces of 100 bytes', '\r', 100],
    ['LF, in one piece', '\n', 100_000],
  ])('is heard and metered whole: %s', async (_, lineEnd, bytes) => {
    two.primary.answer(sequence(head(200, EVENT_STREAM), drip(events(lineEnd), { bytes, everyMs: 0 }), end));
    const heard = await two.hear();
    expect(heard).toMatchObject({ text: ANSWER, usage: USAGE, error: undefined });
    expect(await two.books()).toEqual({ used: PRIMARY_CHARGE, held: '0.00' });
  });
});

describe('B2 a provider that dies in mid-answer', () => {
  const begun = WORDS.slice(0, 10).map((word) => chunk(word));

  it.each<[string, Script]>([
    ['a FIN inside a chunked body', stream(...begun, hangUp)],
    ['a reset', stream(...begun, pause(20), reset)],
    [
      'a content-length that is not reached',
      sequence(head(200, { ...EVENT_STREAM, 'content-length': 1_000_000 }), ...begun, hangUp),
    ],
  ])('is never a clean end: %s', async (_, script) => {
    two.primary.answer(script);
    const heard = await two.hear();
    expect(heard.error).toBeInstanceOf(OpenAI.APIError);
    expect(heard.error).toMatchObject({ code: 'upstream_cut' });
    expect(heard).toMatchObject({ text: WORDS.slice(0, 10).join(''), finishReason: undefined });
    expect(two.asked()).toEqual([1, 0]);
    // 13 x 1,000 and 10 x 3,000 nano-dollars, by estimate.
    expect(await two.books()).toEqual({ used: '0.000043', held: '0.00' });
  });

  it('resets the connection where an event has begun: nothing can follow that', async () => {
    two.primary.answer(stream(...begun, 'data: {"choices":[{"del', pause(20), reset));
    const heard = await two.hear();
    expect(heard.error?.message).toMatch(/terminated|Connection error/);
    expect(heard.text).toBe(WORDS.slice(0, 10).join(''));
    expect(await two.books()).toEqual({ used: '0.000043', held: '0.00' });
  });

  it('in a JSON answer of which nothing has reached the client is nothing to it', async () => {
    two.primary.answer(truncated({ choices: [{ message: { content: ANSWER } }] }, 40));
    const answer = await two.gateway.client.chat.completions.create(QUESTION);
    expect(answer).toMatchObject({ model: 'other-model', usage: USAGE });
    expect(two.asked()).toEqual([1, 1]);
    expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
  });

  it('breaks a JSON answer off where it is the last target, and charges what was delivered of it', async () => {
    two = await restarted(two, { primaryAlone: true });
    const settled = two.gateway.nextSettled();
    two.primary.answer(truncated({ choices: [{ message: { content: ANSWER } }] }, 235));
    await expect(two.gateway.client.chat.completions.create(QUESTION)).rejects.toThrow('terminated');
    // 13 x 1,000 and 50 x 3,000 nano-dollars, by estimate.
    expect(await settled).toMatchObject({ ending: 'upstream_cut', charged: '0.000163' });
  });
});

describe('B3 an error inside a 200', () => {
  const failure = 'data: {"error":{"message":"Overloaded.","code":"overloaded"}}\n\n';

  it('in place of the first event is answered by another target', async () => {
    two.primary.answer(stream(failure));
    expect(await two.hear()).toMatchObject({ text: ANSWER, model: 'other-model', error: undefined });
    expect(two.asked()).toEqual([1, 1]);
    expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
  });

  it('as a whole JSON body is answered by another target', async () => {
    two.primary.answer(respond(200, { error: { message: 'Overloaded.' } }));
    const answer = await two.gateway.client.chat.completions.create(QUESTION);
    expect(answer.choices[0]?.message.content).toBe(ANSWER);
    expect(two.asked()).toEqual([1, 1]);
    expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
  });

  it('as the third event is thrown by the client, as the provider said it', async () => {
    two.primary.answer(stream(chunk(' w00'), pause(20), chunk(' w01'), failure, hang));
    const heard = await two.hear();
    expect(heard.error).toMatchObject({ message: 'Overloaded.', code: 'overloaded' });
    expect(heard.text).toBe(' w00 w01');
    expect(two.asked()).toEqual([1, 0]);
    // 13 x 1,000 and 2 x 3,000 nano-dollars, by estimate.
    expect(await two.books()).toEqual({ used: '0.000019', held: '0.00' });
  });

  it('as a reason for the end is passed as it is, and charged as reported', async () => {
    const last = { choices: [{ index: 0, delta: {}, finish_reason: 'error' }], usage: USAGE };
    two.primary.answer(stream(chunk(' w00'), chunk(last), DONE));
    expect(await two.hear()).toMatchObject({ text: ' w00', finishReason: 'error', error: undefined });
    expect(await two.books()).toEqual({ used: PRIMARY_CHARGE, held: '0.00' });
  });
});

it('B4 nothing buffers: each event is heard before the next is written', async () => {
  let heard = (): void => {};
  const untilHeard: Part = () => new Promise<void>((resolve) => (heard = resolve));
  const words = WORDS.slice(0, 20);
  two.primary.answer(stream(...words.flatMap((word) => [chunk(word), untilHeard]), chunk('', 'stop'), DONE));
  let text = '';
  for await (const { choices } of await ask()) {
    text += choices[0]?.delta.content ?? '';
    heard();
  }
  expect(text).toBe(words.join(''));
});

it('B5 a head is not kept back until the first token comes', async () => {
  const alone = await startTwoTargets({ primaryAlone: true });
  let goOn = (): void => {};
  const untilHeard: Part = () => new Promise<void>((resolve) => (goOn = resolve));
  alone.primary.answer(sequence(head(200, EVENT_STREAM), untilHeard, chunk('Hi', 'stop'), DONE, end));
  const asking = alone.gateway.client.chat.completions.create({ ...QUESTION, stream: true }).withResponse();
  const { data, response } = await asking;
  expect(response.status).toBe(200);
  goOn();
  for await (const each of data) expect(each.choices[0]?.delta.content).toBe('Hi');
  await alone.close();
});

describe('B7 a client that leaves', () => {
  /** Leaves when the provider, or the answer, is so far; resolves to what was settled then. */
  async function leaveAt(
    phase: 'no head' | 'head' | 'first word' | 'retry',
  ): Promise<{ charged: string; ending: string }> {
    const leaving = new AbortController();
    const settled = two.gateway.nextSettled();
    const arriving = two.primary.nextRequest();
    const asking = ask({}, { signal: leaving.signal });
    if (phase === 'no head' || phase === 'retry') {
      asking.catch(() => {});
      await arriving;
      if (phase === 'retry') await new Promise((resolve) => setTimeout(resolve, 50));
    } else {
      const answer = await asking;
      if (phase === 'first word') await answer[Symbol.asyncIterator]().next();
    }
    leaving.abort();
    const { charged, ending } = await settled;
    return { charged, ending };
  }

  it.each([
    // 13 x 1,000 nano-dollars for the prompt, by estimate; 3,000 for a word.
    ['no head', hang, '0.000013'],
    ['head', stream(': ok\n\n', hang), '0.000013'],
    ['first word', stream(chunk(' w00'), hang), '0.000016'],
  ] as const)('at «%s» ends the paid call', async (phase, script, charged) => {
    two = await restarted(two, { retries: { firstEventWaitMs: 10 } });
    two.primary.answer(script);
    expect(await leaveAt(phase)).toEqual({ charged, ending: 'client_gone' });
    await two.primary.requests[0]?.aborted;
    expect(two.asked()).toEqual([1, 0]);
    expect(await two.books()).toEqual({ used: charged, held: '0.00' });
  });

  it('while a retry is waited for makes none', async () => {
    two = await restarted(two, { primaryAlone: true });
    two.primary.answer(error(429, { headers: { 'retry-after-ms': '150' } }), WELL);
    expect(await leaveAt('retry')).toEqual({ charged: '0.00', ending: 'client_gone' });
    expect(two.asked()).toEqual([1, 0]);
    expect(await two.books()).toEqual({ used: '0.00', held: '0.00' });
  });

  it('as soon as it has read [DONE] has not left', async () => {
    two.primary.answer(completion({ content: WORDS, tokens: { prompt: 9, completion: 60 } }));
    const { settled } = await two.hear();
    expect(settled).toMatchObject({ ending: 'finished', charged: PRIMARY_CHARGE, usageSource: 'upstream' });
  });
});

it('B8 a client that does not read stops its provider, and no memory fills', async () => {
  const megabyte = chunk('x'.repeat(2 ** 20));
  let written = 0;
  const counted: Part = () => {
    written += 1;
  };
  two.primary.answer(
    stream(...Array.from({ length: 64 }, () => [megabyte, counted]).flat(), chunk('', 'stop'), DONE),
  );
  const answers = await Promise.all(Array.from({ length: 5 }, () => ask({ max_tokens: 1000 })));
  await untilStill(two.gateway, () => written);
  // What the kernel's buffers hold on both sides, of 64 MB for each.
  expect(written / answers.length).toBeLessThan(20);
  for (const answer of answers) answer.controller.abort();
  await Promise.all(two.primary.requests.map(({ aborted }) => aborted));
});

async function restarted(
  old: TwoTargets,
  options: Parameters<typeof startTwoTargets>[0],
): Promise<TwoTargets> {
  await old.close();
  return startTwoTargets(options);
}
