import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import type { ChatCompletionsRouterOptions, ModelOptions, ResponseEnded } from '../../../src/index.ts';
import { clientsOf, type Gateway, PRICING, startGateway } from '../../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../../helpers/provider.ts';

const OK = answerJson(completionBody());
const BUSY = answerJson('{"error":{"message":"busy"}}', 503);
const NAMES = ['first', 'second', 'third'] as const;
type Name = (typeof NAMES)[number];

let gateway: Gateway;
let providers: Record<Name, Provider>;
let ended: ResponseEnded[];
/** Called when the next response is over. */
let waiting: (() => void)[];

afterEach(async () => {
  await gateway.close();
  for (const provider of Object.values(providers)) await provider.close();
});

/** A gateway with one model at three providers. */
async function start(
  options: Partial<ChatCompletionsRouterOptions> = {},
  model: Partial<ModelOptions> = {},
): Promise<void> {
  const [first, second, third] = await Promise.all([startProvider(OK), startProvider(OK), startProvider(OK)]);
  providers = { first, second, third };
  ended = [];
  waiting = [];
  const all = { ...options.providers };
  gateway = await startGateway({
    sticky: { by: ['header:X-Session-Id', 'prompt_cache_key', 'user', 'prefix'] },
    ...options,
    providers: Object.fromEntries(
      NAMES.map((name) => [
        name,
        { baseURL: providers[name].baseURL, apiKey: `sk-${name}`, ...Object(all[name]) },
      ]),
    ),
    models: {
      'acme/fast': {
        targets: ['first/a', 'second/b', 'third/c'],
        pricing: PRICING,
        contextWindow: 8192,
        maxOutputTokens: 1000,
        ...model,
      },
      ...options.models,
    },
    hooks: [
      {
        onResponse: (event: ResponseEnded) => {
          ended.push(event);
          waiting.shift()?.();
        },
      },
    ],
  });
}

type Message = { readonly role: string; readonly content: unknown };

const user = (content: unknown): Message => ({ role: 'user', content });
const assistant = (content: string): Message => ({ role: 'assistant', content });

interface Turn {
  readonly session?: string;
  readonly messages?: readonly Message[];
  readonly fields?: object;
  readonly by?: Pick<Gateway, 'post'>;
  /** Of the answer. */
  readonly status?: number;
}

/** Sends a turn; returns who answered it, and with which key it was asked. */
async function turn({
  session,
  messages = [user('hi')],
  fields = {},
  by = gateway,
  status = 200,
}: Turn): Promise<string> {
  const before = NAMES.map((name) => providers[name].received.length);
  const over = new Promise<void>((resolve) => waiting.push(resolve));
  const response = await by.post(
    { model: 'acme/fast', messages, ...fields },
    session === undefined ? {} : { headers: { 'x-session-id': session } },
  );
  expect(response.status).toBe(status);
  await response.text();
  await over;
  const asked = NAMES.filter((name, n) => providers[name].received.length > before[n]!);
  const name = asked.at(-1)!;
  const { authorization } = providers[name].received.at(-1)!.headers;
  return `${name} ${authorization?.replace('Bearer ', '')}`;
}

/** Moves the clock of conversations and cool-downs. */
function letPass(ms: number): void {
  vi.setSystemTime(Date.now() + ms);
  onTestFinished(() => void vi.useRealTimers());
}

/** Which of the providers fail from now on. */
function breakDown(...names: readonly Name[]): void {
  for (const name of NAMES) providers[name].script = names.includes(name) ? BUSY : OK;
}

describe('a conversation', () => {
  it('stays where a failover has moved it, while others go back', async () => {
    await start();
    breakDown('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    breakDown();
    expect(await turn({ session: 's2' })).toBe('first sk-first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    expect(ended.map(({ sticky }) => sticky)).toEqual(['new', 'new', 'kept', 'kept']);
  });

  it('moves on when its target fails, and stays there', async () => {
    await start();
    expect(await turn({ session: 's1' })).toBe('first sk-first');
    breakDown('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    breakDown();
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    expect(ended.map(({ sticky }) => sticky)).toEqual(['new', 'moved', 'kept']);
  });

  it('is routed anew once its time is over, which each turn begins again', async () => {
    await start({ sticky: { by: ['header:x-session-id'], ttlMs: 60_000 } });
    breakDown('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    breakDown();
    letPass(59_000);
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    letPass(59_000);
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    letPass(61_000);
    expect(await turn({ session: 's1' })).toBe('first sk-first');
    expect(ended.at(-1)?.sticky).toBe('new');
  });

  it('does not ask a target that the circuit breaker has ejected before the others', async () => {
    await start({ health: { failures: 1, coolDownMs: 60_000 } });
    expect(await turn({ session: 's1' })).toBe('first sk-first');
    breakDown('first');
    await turn({ session: 's2' });
    const { length } = providers.first.received;
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    expect(providers.first.received).toHaveLength(length);
  });

  it('leaves a target that an operator has ejected', async () => {
    await start();
    expect(await turn({ session: 's1' })).toBe('first sk-first');
    await gateway.router.providers.eject('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    await gateway.router.providers.readmit('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
  });

  it('is not kept where the answer was an error', async () => {
    await start();
    providers.first.script = answerJson('{"error":{"message":"too hot"}}', 400);
    await turn({ session: 's1', status: 400 });
    expect(ended[0]).not.toHaveProperty('sticky');
    providers.first.script = OK;
    await turn({ session: 's1' });
    expect(ended[1]?.sticky).toBe('new');
  });

  it('of another account has the same name, and no more', async () => {
    await start();
    const { key } = await gateway.router.keys.create({ account: 'other' });
    await gateway.router.credits.grant('other', '5.00', { id: 'welcome_other' });
    const other = clientsOf(gateway.baseURL, key);
    breakDown('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    breakDown();
    expect(await turn({ session: 's1', by: other })).toBe('first sk-first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    expect(ended.map(({ sticky }) => sticky)).toEqual(['new', 'new', 'kept']);
  });

  it('survives a reload', async () => {
    await start();
    breakDown('first');
    await turn({ session: 's1' });
    breakDown();
    gateway.router.reload({});
    expect(await turn({ session: 's1' })).toBe('second sk-second');
  });

  it('is kept for each model', async () => {
    const small = { targets: ['first/s', 'third/s'], pricing: PRICING, maxOutputTokens: 1000 };
    await start({ models: { 'acme/small': small } });
    breakDown('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    expect(await turn({ session: 's1', fields: { model: 'acme/small' } })).toBe('third sk-third');
    breakDown();
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    expect(await turn({ session: 's1', fields: { model: 'acme/small' } })).toBe('third sk-third');
  });
});

describe('the order of targets', () => {
  it('that a client names comes before its conversation', async () => {
    await start({ clientRouting: true });
    breakDown('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    breakDown();
    const fields = { provider: { order: ['first', 'second'] } };
    expect(await turn({ session: 's1', fields })).toBe('first sk-first');
  });

  it.each<[string, object]>([
    ['an empty order', { order: [] }],
    ['no fallbacks', { allow_fallbacks: false }],
    ['neither', { order: [], allow_fallbacks: false }],
  ])('is that of its conversation, then of its strategy, where a client says %s', async (_name, provider) => {
    const at = (name: Name, input: string): object => ({
      provider: name,
      model: 'm',
      pricing: { input, output: input },
    });
    const targets = [at('third', '3'), at('second', '2'), at('first', '1')] as ModelOptions['targets'];
    await start({ clientRouting: true }, { strategy: 'price', targets });
    const fields = { provider };
    expect(await turn({ session: 's1', fields })).toBe('first sk-first');
    breakDown('first');
    expect(await turn({ session: 's2' })).toBe('second sk-second');
    breakDown();
    expect(await turn({ session: 's2', fields })).toBe('second sk-second');
    await gateway.router.providers.eject('first');
    expect(await turn({ session: 's1', fields })).toBe('second sk-second');
  });

  it('never brings back a target that the client excludes', async () => {
    await start({ clientRouting: true });
    expect(await turn({ session: 's1' })).toBe('first sk-first');
    expect(await turn({ session: 's1', fields: { provider: { ignore: ['first'] } } })).toBe(
      'second sk-second',
    );
  });

  it('of weighted targets is the same for a session, and by weight over all', async () => {
    const targets = [
      { provider: 'first', model: 'a', weight: 1 },
      { provider: 'second', model: 'b', weight: 3 },
    ];
    await start({ sticky: { by: ['header:x-session-id'], ttlMs: 1000 } }, { strategy: 'weighted', targets });
    const sessions = Array.from({ length: 80 }, (_, n) => `session ${n}`);
    const drawn: string[] = [];
    for (const session of sessions) drawn.push(await turn({ session }));
    // What is remembered is over: the draw alone says it again.
    letPass(2000);
    for (const [n, session] of sessions.entries()) expect(await turn({ session })).toBe(drawn[n]);
    expect(new Set(ended.map(({ sticky }) => sticky))).toEqual(new Set(['new']));
    // 20 and 60 are expected; the draw of these names is always the same.
    expect(drawn.filter((name) => name.startsWith('first')).length).toBeGreaterThan(10);
    expect(drawn.filter((name) => name.startsWith('first')).length).toBeLessThan(30);
  });
});

describe('the key of a pool', () => {
  const pool = { first: { apiKey: undefined, apiKeys: ['sk-1', 'sk-2', 'sk-3'] } } as never;

  it('that served a conversation serves its next turn', async () => {
    await start({ providers: pool }, { targets: ['first/a'] });
    expect(await turn({ session: 's1' })).toBe('first sk-1');
    expect(await turn({ session: 's2' })).toBe('first sk-2');
    expect(await turn({ session: 's1' })).toBe('first sk-1');
    expect(await turn({ session: 's2' })).toBe('first sk-2');
    expect(await turn({ session: 's3' })).toBe('first sk-3');
  });

  it('is another one while it is limited, and that one is kept', async () => {
    await start({ providers: pool }, { targets: ['first/a'] });
    expect(await turn({ session: 's1' })).toBe('first sk-1');
    providers.first.script = (response, request) =>
      (request.headers.authorization === 'Bearer sk-1'
        ? answerJson('{"error":{"message":"slow down"}}', 429, { 'retry-after': '60' })
        : OK)(response, request);
    expect(await turn({ session: 's1' })).toBe('first sk-2');
    expect(await turn({ session: 's1' })).toBe('first sk-2');
    expect(ended.map(({ sticky }) => sticky)).toEqual(['new', 'moved', 'kept']);
  });
});

describe('what a conversation is known by', () => {
  /** Two turns, the second after the first target has come back. */
  async function movedBy(one: Turn, next: Turn): Promise<string> {
    breakDown('first');
    expect(await turn(one)).toBe('second sk-second');
    breakDown();
    return turn(next);
  }

  it.each<[string, object, object]>([
    ['prompt_cache_key', { prompt_cache_key: 'k1' }, { prompt_cache_key: 'k1', user: 'u' }],
    ['user', { user: 'u1' }, { user: 'u1' }],
    ['safety_identifier', { safety_identifier: 'u1' }, { safety_identifier: 'u1', user: 'u2' }],
  ])('may be its %s', async (_name, fields, same) => {
    await start();
    const other = Object.fromEntries(Object.keys(fields).map((name) => [name, 'another']));
    expect(await movedBy({ fields }, { fields: other })).toBe('first sk-first');
    expect(await turn({ fields: same, messages: [user('something else')] })).toBe('second sk-second');
  });

  it('is the first source that a request has', async () => {
    await start();
    const one = { session: 's1', fields: { prompt_cache_key: 'k1' } };
    expect(await movedBy(one, { fields: { prompt_cache_key: 'k1' } })).toBe('first sk-first');
    expect(await turn({ ...one, fields: { prompt_cache_key: 'k2' } })).toBe('second sk-second');
  });

  it('may be its end user, whom the host names', async () => {
    await start({ authenticate: () => ({ account: 'acct', key: 'k', user: 'ada' }) });
    expect(await movedBy({ fields: { user: 'u1' } }, { fields: { user: 'u2' } })).toBe('second sk-second');
  });

  it('are its messages, which grow with each turn', async () => {
    await start();
    const messages = [{ role: 'system', content: 'Be kind.' }, user('What is a quark?')];
    breakDown('first');
    expect(await turn({ messages })).toBe('second sk-second');
    breakDown();
    for (let n = 0; n < 5; n++) {
      messages.push(assistant(`Answer ${n}.`), user(`And why? ${n}`));
      expect(await turn({ messages })).toBe('second sk-second');
    }
    expect(ended.slice(1).map(({ sticky }) => sticky)).toEqual(Array(5).fill('kept'));
    const [system] = messages;
    expect(await turn({ messages: [system!, user('What is a lepton?')] })).toBe('first sk-first');
    expect(await turn({ messages: messages.slice(1) })).toBe('first sk-first');
  });

  it('are messages whose marks of caches move', async () => {
    await start();
    const marked = (text: string): Message =>
      user([{ type: 'text', text, cache_control: { type: 'ephemeral' } }]);
    const next = { messages: [user('One'), assistant('Two'), marked('Three')] };
    expect(await movedBy({ messages: [marked('One')] }, next)).toBe('second sk-second');
  });

  it.each<[string, Turn]>([
    ['no source', { fields: { user: null, prompt_cache_key: 7 } }],
    ['empty ones', { session: '', fields: { user: '', prompt_cache_key: '' } }],
  ])('is nothing in a request with %s, which is served as any other', async (_name, request) => {
    await start({ sticky: { by: ['header:x-session-id', 'prompt_cache_key', 'user'] } });
    expect(await movedBy(request, request)).toBe('first sk-first');
    expect(ended[0]).not.toHaveProperty('sticky');
  });
});

describe('a model', () => {
  it('may turn it off', async () => {
    await start({}, { sticky: false });
    breakDown('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    breakDown();
    expect(await turn({ session: 's1' })).toBe('first sk-first');
    expect(ended[0]).not.toHaveProperty('sticky');
  });

  it('may have its own time', async () => {
    await start({}, { sticky: { ttlMs: 1000 } });
    breakDown('first');
    expect(await turn({ session: 's1' })).toBe('second sk-second');
    breakDown();
    letPass(1500);
    expect(await turn({ session: 's1' })).toBe('first sk-first');
  });

  it('with one target and one key is kept for its fallback, which has more', async () => {
    const small = { targets: ['first/s'] as const, pricing: PRICING, maxOutputTokens: 1000 };
    await start({ clientRouting: true, models: { 'acme/small': small } });
    const fields = { model: 'acme/small', models: ['acme/fast'] };
    breakDown('first', 'second');
    expect(await turn({ session: 's1', fields })).toBe('third sk-third');
    breakDown('first');
    expect(await turn({ session: 's1', fields })).toBe('third sk-third');
    expect(ended.map(({ sticky }) => sticky)).toEqual(['new', 'kept']);
  });

  it('with one target and one key remembers nothing', async () => {
    await start({}, { targets: ['first/a'] });
    expect(await turn({ session: 's1' })).toBe('first sk-first');
    expect(ended[0]).not.toHaveProperty('sticky');
  });
});

it('operators see what providers read from their caches, by target', async () => {
  await start();
  const usage = { prompt_tokens: 1000, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 750 } };
  await turn({ session: 's1' });
  providers.first.script = answerJson(completionBody({ usage }));
  const settled = gateway.nextSettled();
  await turn({ session: 's1' });
  await settled;
  const [first, second] = gateway.router.providers.list();
  // 9 tokens of the first turn, 1,000 of the second.
  expect(first?.targets).toMatchObject([
    { model: 'a', recent: { requests: 2, promptTokens: 1009, cachedTokens: 750 } },
  ]);
  expect(second?.recent).not.toHaveProperty('promptTokens');
});
