import OpenAI from 'openai';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import {
  chunk,
  completion,
  DONE,
  error,
  hang,
  head,
  hangUp,
  pause,
  rateLimited,
  repeat,
  reset,
  sequence,
  stream,
} from '../../../src/testing.ts';
import {
  ANSWER,
  FALLBACK_CHARGE,
  type Heard,
  PRIMARY_CHARGE,
  startTwoTargets,
  type TwoTargets,
  type TwoTargetsOptions,
  WELL,
  WORDS,
} from './two-targets.ts';

// The sixteen scenarios of https://github.com/failoverbench/failoverbench (methodology 0.1), in less time: what
// is a second there is some ten milliseconds here. Each says what the official client sees, who was asked and what was paid.
//
// In its own words S08, S09, S10 and S14 are «safe»: the client gets a clear error, because nothing is begun twice once a
// byte is out. In all others it gets the whole answer (in S13, as it is to be, the provider's reason).

let two: TwoTargets;

async function start(options?: TwoTargetsOptions): Promise<void> {
  two = await startTwoTargets(options);
}

afterEach(async () => {
  expect(await two.books()).toMatchObject({ held: '0.00' });
  await two.close();
});

const USAGE = { prompt_tokens: 9, completion_tokens: 60, total_tokens: 69 };

/** The whole answer, and only it, was delivered and paid for. */
function expectAnswer(heard: Heard, by: 'primary' | 'fallback'): void {
  expect(heard).toMatchObject({
    text: ANSWER,
    finishReason: 'stop',
    model: by === 'primary' ? 'main-model' : 'other-model',
    usage: USAGE,
    error: undefined,
    settled: {
      provider: by,
      charged: by === 'primary' ? PRIMARY_CHARGE : FALLBACK_CHARGE,
      ending: 'finished',
    },
  });
}

/** The client was told in so many words that the answer is not complete. */
function expectBroken(heard: Heard, code: string, words: number): void {
  expect(heard.error).toBeInstanceOf(OpenAI.APIError);
  expect(heard.error).toMatchObject({ code });
  expect(heard).toMatchObject({ text: WORDS.slice(0, words).join(''), finishReason: undefined });
}

const words = (count: number): string[] => WORDS.slice(0, count).map((word) => chunk(word));

describe('S01 429 with Retry-After', () => {
  it('is waited for as long as it says, where no other target can be asked', async () => {
    await start({ primaryAlone: true });
    two.primary.answer(error(429, { headers: { 'retry-after-ms': '200' } }), WELL);
    const heard = await two.hear();
    expectAnswer(heard, 'primary');
    expect(heard.ms).toBeGreaterThan(195);
    expect(two.asked()).toEqual([2, 0]);
    expect(await two.books()).toEqual({ used: PRIMARY_CHARGE, held: '0.00' });
  });

  it('is not waited for where another target can be asked', async () => {
    await start();
    two.primary.answer(rateLimited(2));
    const heard = await two.hear();
    expectAnswer(heard, 'fallback');
    expect(two.asked()).toEqual([1, 1]);
    expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
  });
});

describe('S02 429 without Retry-After, persistent', () => {
  it('is answered by the fallback; no client hammers', async () => {
    await start();
    two.primary.answer(rateLimited());
    expectAnswer(await two.hear(), 'fallback');
    expect(two.asked()).toEqual([1, 1]);
    expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
  });

  it('is passed as it is after one more try, where no other target can be asked', async () => {
    await start({ primaryAlone: true });
    two.primary.answer(rateLimited());
    const heard = await two.hear();
    expect(heard.error).toBeInstanceOf(OpenAI.RateLimitError);
    expect(heard.ms).toBeGreaterThan(180);
    expect(two.asked()).toEqual([2, 0]);
    expect(await two.books()).toEqual({ used: '0.00', held: '0.00' });
  });
});

describe('S03 500 once, then healthy', () => {
  it('is asked again', async () => {
    await start({ primaryAlone: true });
    two.primary.answer(error(500), WELL);
    expectAnswer(await two.hear(), 'primary');
    expect(two.asked()).toEqual([2, 0]);
    expect(await two.books()).toEqual({ used: PRIMARY_CHARGE, held: '0.00' });
  });

  it('is answered at once by the fallback where there is one; the next request finds it well', async () => {
    await start();
    two.primary.answer(error(500), WELL);
    expectAnswer(await two.hear(), 'fallback');
    expectAnswer(await two.hear(), 'primary');
    expect(two.asked()).toEqual([2, 1]);
    expect(await two.books()).toEqual({ used: '0.000567', held: '0.00' });
  });
});

it('S04 503 persistent: the fallback answers', async () => {
  await start();
  two.primary.answer(error(503));
  expectAnswer(await two.hear(), 'fallback');
  expect(two.asked()).toEqual([1, 1]);
  expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
});

it('S05 TCP reset before headers: the fallback answers', async () => {
  await start();
  two.primary.answer(reset);
  expectAnswer(await two.hear(), 'fallback');
  expect(two.asked()).toEqual([1, 1]);
  expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
});

describe('S06 No response at all', () => {
  it('is left when its time is over, and not asked again; the fallback answers', async () => {
    await start({ timeouts: { firstByteMs: 150 } });
    two.primary.answer(hang);
    const heard = await two.hear();
    expectAnswer(heard, 'fallback');
    expect(heard.ms).toBeGreaterThan(145);
    expect(two.asked()).toEqual([1, 1]);
    await two.primary.requests[0]?.aborted;
    expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
  });

  it('is a 504 within its time, where no other target can be asked', async () => {
    await start({ primaryAlone: true, timeouts: { firstByteMs: 150 } });
    two.primary.answer(hang);
    const heard = await two.hear();
    expect(heard.error).toMatchObject({ status: 504, code: 'upstream_first_byte_timeout' });
    expect(two.asked()).toEqual([1, 0]);
    expect(await two.books()).toEqual({ used: '0.00', held: '0.00' });
  });
});

describe('S07 Slow first token', () => {
  const slow = sequence(
    head(200, { 'content-type': 'text/event-stream' }),
    pause(400),
    WORDS.map((word) =>
      chunk({ model: 'main-model', choices: [{ index: 0, delta: { content: word } }] }),
    ).join(''),
    chunk({ model: 'main-model', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
    chunk({ model: 'main-model', choices: [], usage: USAGE }),
    DONE,
    (response) => response.end(),
  );

  it('is waited for while it may take so long', async () => {
    await start({ retries: { firstEventWaitMs: 100 } });
    two.primary.answer(slow);
    expectAnswer(await two.hear(), 'primary');
    expect(two.asked()).toEqual([1, 0]);
    expect(await two.books()).toEqual({ used: PRIMARY_CHARGE, held: '0.00' });
  });

  it('is answered by the fallback when it takes longer than it may', async () => {
    await start({ timeouts: { firstByteMs: 150 } });
    two.primary.answer(sequence(head(200, { 'content-type': 'text/event-stream' }), hang));
    const heard = await two.hear();
    expectAnswer(heard, 'fallback');
    expect(two.asked()).toEqual([1, 1]);
    expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
  });
});

describe('S08 Stream cut mid-answer', () => {
  it.each([
    ['with a reset', sequence(pause(20), reset)],
    ['with a FIN and no last chunk', hangUp],
  ])('is a clear error, and nobody gets two beginnings: %s', async (_, cut) => {
    await start();
    two.primary.answer(stream(...words(40), cut));
    expectBroken(await two.hear(), 'upstream_cut', 40);
    expect(two.asked()).toEqual([1, 0]);
    // An estimate, for nobody said what was used: 13 x 1,000 + 40 x 3,000 nano-dollars.
    expect(await two.books()).toEqual({ used: '0.000133', held: '0.00' });
  });
});

it('S09 Stream stalls: a clear error within its time; the next request is served', async () => {
  await start({ timeouts: { idleMs: 150 } });
  two.primary.answer(stream(...words(20), hang), WELL);
  const heard = await two.hear();
  expectBroken(heard, 'upstream_idle_timeout', 20);
  await two.primary.requests[0]?.aborted;
  expectAnswer(await two.hear(), 'primary');
  expect(two.asked()).toEqual([2, 0]);
  // 13 x 1,000 + 20 x 3,000 by estimate, and the answer.
  expect(await two.books()).toEqual({ used: '0.000262', held: '0.00' });
});

it('S10 Malformed chunk in the stream: the client sees it as it is, and throws; the next request is served', async () => {
  await start();
  two.primary.answer(stream(...words(9), 'data: {"choices":[{"delta":\n\n', hang), WELL);
  const heard = await two.hear();
  expect(heard.error).toBeInstanceOf(SyntaxError);
  expect(heard.text).toBe(WORDS.slice(0, 9).join(''));
  await two.primary.requests[0]?.aborted;
  expectAnswer(await two.hear(), 'primary');
  expect(two.asked()).toEqual([2, 0]);
  // 13 x 1,000 + 9 x 3,000 by estimate, and the answer.
  expect(await two.books()).toEqual({ used: '0.000229', held: '0.00' });
});

it('S11 Stream ends without [DONE]: a whole answer, at once, with its usage', async () => {
  await start();
  const usage = chunk({ model: 'main-model', choices: [], usage: USAGE });
  const last = chunk({ model: 'main-model', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  two.primary.answer(stream(...words(60), last, usage));
  const heard = await two.hear();
  expectAnswer(heard, 'primary');
  expect(two.asked()).toEqual([1, 0]);
  expect(await two.books()).toEqual({ used: PRIMARY_CHARGE, held: '0.00' });
});

describe('S12 Context length exceeded', () => {
  const tooLong = error(400, { message: 'Too long.', code: 'context_length_exceeded', param: 'messages' });

  it('is answered by a fallback that reads more; no target is asked twice', async () => {
    await start();
    two.primary.answer(tooLong);
    expectAnswer(await two.hear(), 'fallback');
    expect(two.asked()).toEqual([1, 1]);
    expect(await two.books()).toEqual({ used: FALLBACK_CHARGE, held: '0.00' });
  });

  it('is passed as it is, where no other target can be asked', async () => {
    await start({ primaryAlone: true });
    two.primary.answer(tooLong);
    const heard = await two.hear();
    expect(heard.error).toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'messages' });
    expect(two.asked()).toEqual([1, 0]);
    expect(await two.books()).toEqual({ used: '0.00', held: '0.00' });
  });
});

it("S13 Content-filter rejection: the provider's own reason, and no other target is asked", async () => {
  await start();
  two.primary.answer(error(400, { message: 'Not this.', code: 'content_policy_violation' }));
  const heard = await two.hear();
  expect(heard.error).toMatchObject({
    status: 400,
    message: '400 Not this.',
    code: 'content_policy_violation',
  });
  expect(two.asked()).toEqual([1, 0]);
  expect(await two.books()).toEqual({ used: '0.00', held: '0.00' });
});

it('S14 Fallback target rejects prefill: it is never sent one, and the client hears of the cut', async () => {
  await start();
  two.primary.answer(stream(...words(40), pause(20), reset));
  two.fallback.answer((response, request) => {
    const prefilled = request.json.messages?.at(-1)?.role === 'assistant';
    return (prefilled ? error(400, { message: 'Prefill is not supported.' }) : WELL)(response, request);
  });
  expectBroken(await two.hear(), 'upstream_cut', 40);
  expect(two.asked()).toEqual([1, 0]);
  expect(await two.books()).toEqual({ used: '0.000133', held: '0.00' });
});

it('S15 Primary flaps: served by the fallback while it is down, by the primary once it is well', async () => {
  await start({ health: { failures: 3, coolDownMs: 600 } });
  two.primary.answer(error(503));
  for (let i = 0; i < 6; i++) expectAnswer(await two.hear(), 'fallback');
  // After three failures it is set aside: the breaker is open.
  expect(two.asked()).toEqual([3, 6]);

  // One request finds out that it is still down, and is served all the same.
  letCoolDown();
  for (let i = 0; i < 4; i++) expectAnswer(await two.hear(), 'fallback');
  expect(two.asked()).toEqual([4, 10]);

  two.primary.answer(WELL);
  letCoolDown();
  for (let i = 0; i < 10; i++) expectAnswer(await two.hear(), 'primary');
  expect(two.asked()).toEqual([14, 10]);
  expect(two.changes.at(-1)).toMatchObject({ type: 'target_recovered', provider: 'primary' });
  expect(two.gateway.router.health()[0]).toMatchObject({ provider: 'primary', state: 'healthy' });
  expect(await two.books()).toEqual({ used: '0.00567', held: '0.00' }); // 10 x 378,000 + 10 x 189,000
});

it('S16 Fail-over accounting: the answer names the fallback, and only that is paid for', async () => {
  await start();
  two.primary.answer(...repeat(3, error(503)), completion());
  for (let i = 0; i < 3; i++) {
    const heard = await two.hear();
    expect(heard).toMatchObject({ model: 'other-model', usage: USAGE });
    expect(heard.settled).toMatchObject({ provider: 'fallback', upstreamModel: 'other-model' });
  }
  expect(two.asked()).toEqual([3, 3]);
  expect(await two.books()).toEqual({ used: '0.001134', held: '0.00' }); // 3 x 378,000 nano-dollars
  const charges = (await two.gateway.router.credits.journal('acct')).filter(({ type }) => type === 'charge');
  expect(charges.map(({ amount }) => amount)).toEqual([FALLBACK_CHARGE, FALLBACK_CHARGE, FALLBACK_CHARGE]);
});

/** Until a target that was set aside may be asked again, by what was told of it last. */
function letCoolDown(): void {
  const change = two.changes.at(-1);
  if (change?.retryAt === undefined) throw new Error('nothing is set aside');
  vi.setSystemTime(change.retryAt);
  onTestFinished(() => void vi.useRealTimers());
}
