import { createHmac } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { intentLine } from '../../../src/ledger/reliability/outbox-lines.ts';
import { SqliteStore } from '../../../src/ledger/stores/sqlite/sqlite-store.ts';
import { createWebhooks, type WebhookOptions, type Webhooks } from '../../../src/webhooks.ts';
import { run } from '../cli/run-in-process.ts';

const KEY = Buffer.alloc(32, 7);
const SECRET = `whsec_${KEY.toString('base64')}`;
const FOUR_DAYS_MS = 4 * 86_400_000;
const OPTIONS = {
  store: 'memory:',
  providers: { none: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk' } },
  models: { none: { targets: ['none/none'], pricing: 'free' as const } },
  thresholds: { balanceBelow: ['5.00'], budgetAt: ['0.5'] },
};

interface Delivery {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

describe('webhooks', () => {
  const arrivals = new EventEmitter<{ delivery: [Delivery] }>();
  const received: Delivery[] = [];
  const errors: Error[] = [];
  const senders: Webhooks[] = [];
  let server: Server;
  let answer: (response: ServerResponse) => void;
  let dir: string;

  beforeEach(async () => {
    answer = (response) => response.writeHead(204).end();
    server = createServer((request, response) => {
      void (async () => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk as Buffer);
        const delivery = { headers: request.headers, body: Buffer.concat(chunks).toString() };
        received.push(delivery);
        answer(response);
        arrivals.emit('delivery', delivery);
      })();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    dir = mkdtempSync(join(tmpdir(), 'ccr-webhooks-'));
  });

  afterEach(async () => {
    for (const sender of senders.splice(0)) await sender.close();
    server.closeAllConnections();
    server.close();
    rmSync(dir, { recursive: true });
    received.length = 0;
    errors.length = 0;
  });

  const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;

  function open(options: Partial<WebhookOptions> = {}): Webhooks {
    const sender = createWebhooks({
      url: url(),
      secret: SECRET,
      events: ['balance_below'],
      onError: (error) => errors.push(error),
      ...options,
    });
    senders.push(sender);
    return sender;
  }

  /** Makes an event as the router does. */
  function cross(sender: Webhooks, account = 'acme'): void {
    sender.hooks.onLedgerEvent?.({
      type: 'balance_below',
      account,
      requestId: '0mh0000000000000000',
      threshold: '5.00',
      unspent: '4.00',
      available: '4.00',
    });
  }

  /** What a process left that is gone. */
  function leave(ids: readonly string[], createdAt: number): void {
    const file = join(dir, 'dead.outbox');
    const lines = ids.map((requestId) =>
      intentLine({
        type: 'webhook',
        command: { account: 'acme', requestId, body: '{}', createdAt } as never,
      }),
    );
    writeFileSync(file, Buffer.concat(lines));
    utimesSync(file, 0, 0);
  }

  const idsReceived = () => received.map(({ headers }) => headers['webhook-id']);

  it('send the chosen events of a router, signed', async () => {
    const sender = open({
      events: ['balance_below', 'budget_at', 'settled'],
      secret: [SECRET, `whsec_${'B'.repeat(32)}`],
    });
    const router = createChatCompletionsRouter({ ...OPTIONS, hooks: sender.hooks });
    await router.credits.grant('acme', '6.00', { id: 'welcome' });
    await router.accounts.update('acme', { budget: { amount: '6.00', per: 'lifetime' } });
    const hold = await router.holds.open({ account: 'acme', model: 'job', amount: '2.00' });
    await hold.settle('3.00');
    while (received.length < 3) await once(arrivals, 'delivery');
    await router.close();
    const bodies = received.map(({ body }) => JSON.parse(body) as { type: string; data: object });
    expect(bodies.toSorted((one, other) => (one.type < other.type ? -1 : 1))).toMatchObject([
      {
        type: 'balance_below',
        timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
        data: { account: 'acme', threshold: '5.00', unspent: '3.00', requestId: hold.requestId },
      },
      {
        type: 'budget_at',
        data: { account: 'acme', limitedBy: 'account', share: '0.5', amount: '6.00', spent: '3.00' },
      },
      { type: 'settled', data: { account: 'acme', charged: '3.00', available: '3.00' } },
    ]);
    for (const { headers, body } of received) {
      const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures } = headers;
      const expected = createHmac('sha256', KEY)
        .update(`${String(id)}.${String(time)}.${body}`)
        .digest('base64');
      expect(String(signatures).split(' ')).toHaveLength(2);
      expect(String(signatures).split(' ')[0]).toBe(`v1,${expected}`);
      expect(headers['content-type']).toBe('application/json');
    }
  });

  it('are sent again, with the same id, until the endpoint takes them', async () => {
    const sender = open();
    answer = (response) => response.writeHead(received.length < 3 ? 503 : 200).end('thanks');
    cross(sender);
    while (received.length < 3) await once(arrivals, 'delivery');
    expect(new Set(idsReceived()).size).toBe(1);
    await expect.poll(() => sender.waiting).toBe(0);
  });

  it('that are refused hold up no others, and are sent again', async () => {
    const sender = open();
    answer = (response) => {
      response.writeHead(received.at(-1)?.body.includes('"refused"') ? 400 : 204).end();
    };
    for (let n = 0; n < 12; n++) cross(sender, 'refused');
    cross(sender, 'acme');
    while (!received.some(({ body }) => body.includes('"acme"'))) await once(arrivals, 'delivery');
    const isAgain = (id: unknown, n: number): boolean => idsReceived().indexOf(String(id)) < n;
    while (!idsReceived().some(isAgain)) await once(arrivals, 'delivery');
    expect(sender.waiting).toBe(12);
    expect(errors).toEqual([]);
  });

  it('that are refused are given up when they are older than three days', async () => {
    leave(['msg_1'], Date.now() - FOUR_DAYS_MS);
    answer = (response) => response.writeHead(422).end();
    const sender = open({ dir });
    cross(sender);
    while (errors.length === 0) await nextTurn();
    expect(errors.map(({ message }) => message)).toContain('Webhook msg_1 is given up: status 422');
    expect(readFileSync(join(dir, 'dead-letters.jsonl'), 'utf8')).toContain('msg_1');
    expect(sender.waiting).toBe(1);
  });

  it('count as one failure what was on its way when the endpoint failed', async () => {
    const sender = open();
    const heard: ServerResponse[] = [];
    answer = (response) => heard.push(response);
    for (let n = 0; n < 4; n++) cross(sender);
    while (heard.length < 4) await once(arrivals, 'delivery');
    // Pauses are then 95% of 1, 2, 4 … seconds.
    vi.spyOn(Math, 'random').mockReturnValue(0.1);
    const timers = vi.spyOn(globalThis, 'setTimeout');
    onTestFinished(() => void vi.restoreAllMocks());
    const pauses = () => timers.mock.calls.map(([, ms = 0]) => ms).filter((ms) => ms % 950 === 0 && ms > 0);
    answer = (response) => response.writeHead(503).end();
    for (const response of heard) answer(response);
    while (heard.length + 1 > received.length) await once(arrivals, 'delivery');
    await expect.poll(pauses).toEqual([950, 1900]);
  });

  it('are sent four at once again after the endpoint has recovered', async () => {
    const sender = open();
    answer = (response) => response.writeHead(received.length < 2 ? 503 : 204).end();
    cross(sender);
    while (received.length < 2) await once(arrivals, 'delivery');
    await expect.poll(() => sender.waiting).toBe(0);
    answer = () => {};
    for (let n = 0; n < 4; n++) cross(sender);
    while (received.length < 6) await once(arrivals, 'delivery');
    expect(new Set(idsReceived()).size).toBe(5);
  });

  it('are kept in their folder, from which the next process sends them', async () => {
    const sender = open({ dir });
    answer = (response) => response.destroy();
    const tried = once(arrivals, 'delivery');
    cross(sender);
    await tried;
    await sender.close();
    answer = (response) => response.writeHead(200).end();
    const again = once(arrivals, 'delivery');
    const next = open({ dir });
    const router = createChatCompletionsRouter({ ...OPTIONS, hooks: next.hooks });
    await again;
    await expect.poll(() => next.waiting).toBe(0);
    expect(new Set(idsReceived()).size).toBe(1);
    await router.close();
    await next.close();
    expect(readdirSync(dir)).toEqual([]);
  });

  it.each([['check'], ['accounts']])(
    'of others are not sent by the command %s, which evaluates a config',
    async (command) => {
      leave(['msg_1'], Date.now());
      const store = new SqliteStore(join(dir, 'credits.db'));
      await store.grant({ account: 'acme', id: 'g1', amount: 100n });
      await store.close();
      const config = {
        providers: {},
        models: {},
        store: `sqlite:${join(dir, 'credits.db')}`,
        hooks: [open({ dir }).hooks],
      };
      vi.stubGlobal('configWithWebhooks', config);
      onTestFinished(() => void vi.unstubAllGlobals());
      writeFileSync(join(dir, 'config.mjs'), 'export default globalThis.configWithWebhooks;');
      const ended = await run([command, '--config', 'config.mjs'], { folder: dir });
      expect(ended).toMatchObject({ code: 0, stderr: '' });
      await nextTurn();
      expect(readdirSync(dir).filter((name) => name.endsWith('.outbox'))).toEqual(['dead.outbox']);
    },
  );

  it('are given up by one failure, all that are older than three days', async () => {
    leave(
      Array.from({ length: 50 }, (_, n) => `msg_${n}`),
      Date.now() - FOUR_DAYS_MS,
    );
    answer = (response) => response.writeHead(503).end();
    const sender = open({ dir });
    cross(sender);
    while (errors.length < 50) await nextTurn();
    await expect.poll(() => sender.waiting).toBe(1);
    expect(received.length).toBeLessThan(6);
    expect(errors.filter(({ message }) => message.endsWith(' is given up: status 503'))).toHaveLength(50);
    const letters = readFileSync(join(dir, 'dead-letters.jsonl'), 'utf8').trim().split('\n');
    expect(letters).toHaveLength(50);
    expect(JSON.parse(letters[49] ?? '')).toMatchObject({ type: 'webhook', reason: 'status 503' });
  });

  it('of any age are sent once more by the next process', async () => {
    leave(['msg_1', 'msg_2'], Date.now() - FOUR_DAYS_MS);
    const sender = open({ dir });
    cross(sender);
    await expect.poll(() => sender.waiting).toBe(0);
    expect(idsReceived()).toEqual(expect.arrayContaining(['msg_1', 'msg_2']));
    expect(errors).toEqual([]);
  });

  it('hold up nothing while the endpoint does not answer', async () => {
    answer = () => {};
    const sender = open({ timeoutMs: 20 });
    const router = createChatCompletionsRouter({ ...OPTIONS, hooks: sender.hooks });
    await router.credits.grant('acme', '6.00', { id: 'welcome' });
    const hold = await router.holds.open({ account: 'acme', model: 'job', amount: '2.00' });
    const tried = once(arrivals, 'delivery');
    expect(await hold.settle('2.00')).toMatchObject({ charged: '2.00' });
    await tried;
    // It is given up in time, and sent again.
    await once(arrivals, 'delivery');
    await router.close();
    expect(sender.waiting).toBe(1);
  });

  it('are dropped beyond 10,000, which is said once', async () => {
    answer = () => {};
    const sender = open();
    for (let n = 0; n < 10_005; n++) cross(sender);
    expect(sender.waiting).toBe(10_000);
    expect(errors.map(({ message }) => message)).toEqual([
      'Webhooks are dropped: 10000 wait to be delivered',
    ]);
  });

  it('are dropped where one is too large, which is said apart from too many', () => {
    answer = () => {};
    const sender = open();
    cross(sender, 'x'.repeat(70_000));
    for (let n = 0; n < 10_001; n++) cross(sender);
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^A webhook of 70\d\d\d bytes is dropped: at most 65536 are sent$/),
      'Webhooks are dropped: 10000 wait to be delivered',
    ]);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('of the host');
      },
    ],
    ['rejects', () => Promise.reject(new Error('of the host'))],
  ])('go on where `onError` %s, which is logged', async (_, onError) => {
    const logged = vi.spyOn(console, 'error').mockImplementation(() => {});
    onTestFinished(() => logged.mockRestore());
    leave(['msg_1'], Date.now() - FOUR_DAYS_MS);
    answer = (response) => response.writeHead(received.length === 1 ? 503 : 200).end();
    const sender = open({ dir, onError });
    // The first is given up, which the host is told.
    cross(sender);
    await expect.poll(() => sender.waiting, { timeout: 10_000 }).toBe(0);
    expect(received.length).toBeGreaterThan(1);
    expect(logged).toHaveBeenCalledWith(
      expect.any(String),
      '-',
      expect.objectContaining({ message: 'of the host' }),
    );
  });

  it.each([
    [{ url: 'http://example.com/' }, 'url must be an https URL without a password'],
    [{ url: 'https://u:secret@example.com/' }, '//***@example.com'],
    [{ url: 'ftp://example.com/' }, 'url must be'],
    [
      { secret: 'whsec_c2hvcnQ=' },
      'secret must be whsec_ and base64 of 24 to 64 random bytes, got a string of',
    ],
    [{ secret: [] }, 'secret must be one or more secrets'],
    [{ events: ['settle'] }, 'events must be of settled'],
    [{ events: [] }, 'events must be one or more'],
    [{ timeoutMs: 0 }, 'timeoutMs must be an integer from 1 to 600000, got 0'],
    [{ dir: '' }, 'dir must be the path of a folder'],
    [{ evnets: [] }, 'options has an unknown key "evnets"; did you mean "events"?'],
  ])('are refused by the name of what is wrong: %j', (wrong, message) => {
    const make = () => open(wrong as Partial<WebhookOptions>);
    expect(make).toThrow(message);
    expect(make).not.toThrow('whsec_c2hvcnQ=');
  });
});
