import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { hashOf } from '../../src/platform/running-hash.ts';
import { LocalConversations, type ServedBy } from '../../src/upstream/conversations.ts';
import { clientsOf, type Gateway, PRICING, startGateway } from '../helpers/gateway.ts';
import { answerJson, completionBody, type Provider, startProvider } from '../helpers/provider.ts';

const OK = answerJson(completionBody());
const BUSY = answerJson('{"error":{"message":"busy"}}', 503);
const PLACE: ServedBy = { provider: 'p', model: 'm', key: undefined };

describe('a customer with many conversations', () => {
  it('fills a bounded memory, in which the newest are kept', () => {
    const memory = new LocalConversations();
    for (let turn = 0; turn < 20_000; turn++) memory.keep('mallory', turn, PLACE, 60_000);
    const found = Array.from({ length: 20_000 }, (_, turn) => memory.find('mallory', [turn])).filter(Boolean);
    expect(found).toHaveLength(4096);
    expect(memory.find('mallory', [19_999])).toBe(PLACE);
  });

  it('pushes out no conversation of a customer elsewhere in memory', () => {
    const memory = new LocalConversations();
    const other = ['ada', 'bob', 'eve'].find((name) => hashOf(name) % 32 !== hashOf('mallory') % 32)!;
    memory.keep(other, 1, PLACE, 60_000);
    for (let turn = 0; turn < 20_000; turn++) memory.keep('mallory', turn, PLACE, 60_000);
    expect(memory.find(other, [1])).toBe(PLACE);
  });

  it('finds none of another account, whatever it is named and however its turns are hashed', () => {
    const memory = new LocalConversations();
    memory.keep('ada', 12, PLACE, 60_000);
    const neighbours = Array.from({ length: 500 }, (_, n) => `n${n}`).filter(
      (name) => hashOf(name) % 32 === hashOf('ada') % 32,
    );
    expect(neighbours.length).toBeGreaterThan(0);
    for (const name of neighbours) expect(memory.find(name, [12])).toBeUndefined();
    for (const [account, turn] of [
      ['2 ada', 1],
      ['da', 12],
      ['ADA', 12],
      [' ada', 12],
      ['12 ada', 12],
    ] as const) {
      expect(memory.find(account, [turn])).toBeUndefined();
    }
  });
});

describe('a customer who names conversations', () => {
  let gateway: Gateway;
  let cheap: Provider;
  let dear: Provider;

  beforeEach(async () => {
    [cheap, dear] = await Promise.all([startProvider(OK), startProvider(OK)]);
    gateway = await startGateway({
      sticky: { by: ['header:x-session-id', 'prefix'] },
      health: { failures: 1, coolDownMs: 60_000 },
      providers: {
        cheap: { baseURL: cheap.baseURL, apiKey: 'sk-cheap' },
        dear: { baseURL: dear.baseURL, apiKey: 'sk-dear' },
      },
      models: {
        'acme/fast': { targets: ['dear/m', 'cheap/m'], pricing: PRICING, maxOutputTokens: 1000 },
        'acme/smart': { targets: ['dear/m', 'dear/n'], pricing: PRICING, maxOutputTokens: 1000 },
      },
    });
  });

  afterEach(async () => {
    await gateway.close();
    await cheap.close();
    await dear.close();
  });

  async function ask(by: Pick<Gateway, 'post'>, session: string, model = 'acme/fast'): Promise<void> {
    const body = { model, messages: [{ role: 'user', content: 'hi' }] };
    const response = await by.post(body, { headers: { 'x-session-id': session } });
    expect(response.status).toBe(200);
    await response.text();
  }

  it('takes no target along to a model that does not have it', async () => {
    dear.script = BUSY;
    await ask(gateway, 's1');
    dear.script = OK;
    const { length } = cheap.received;
    await ask(gateway, 's1', 'acme/smart');
    expect(cheap.received).toHaveLength(length);
  });

  it('stays with no target that an operator has ejected', async () => {
    dear.script = BUSY;
    await ask(gateway, 's1');
    dear.script = OK;
    await gateway.router.providers.readmit('dear');
    await gateway.router.providers.eject('cheap');
    const { length } = cheap.received;
    for (const session of ['s1', 's1', 's2']) await ask(gateway, session);
    expect(cheap.received).toHaveLength(length);
  });

  it('moves no conversation of another customer, by the same name or the same messages', async () => {
    const { key } = await gateway.router.keys.create({ account: 'victim' });
    await gateway.router.credits.grant('victim', '5.00', { id: 'welcome_victim' });
    const victim = clientsOf(gateway.baseURL, key);
    await ask(victim, 's1');
    dear.script = BUSY;
    await ask(gateway, 's1');
    await ask(gateway, '');
    dear.script = OK;
    await gateway.router.providers.readmit('dear');
    const { length } = cheap.received;
    await ask(victim, 's1');
    await ask(victim, '');
    expect(cheap.received).toHaveLength(length);
  });

  it.each(['\u00e9'.repeat(100), 'x'.repeat(8000), '__proto__', '1 acct'])(
    'breaks nothing by a name like %.20s',
    async (session) => {
      await ask(gateway, Buffer.from(session).toString('latin1'));
      await ask(gateway, Buffer.from(session).toString('latin1'));
    },
  );
});
