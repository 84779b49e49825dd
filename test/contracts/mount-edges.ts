import * as http from 'node:http';

import { beforeEach, afterEach, describe, expect, it } from 'vitest';

import { type AnyGateway, QUESTION } from '../helpers/gateway.ts';
import { beginStream, DONE, text, USAGE_EVENT } from '../helpers/provider.ts';

export interface EdgeFacts {
  /** Statuses by method for `/models`, where the framework answers a method itself. @default the router's own */
  readonly ownAnswers?: Readonly<Record<string, number>>;
  /** What a body of 2 MB is answered with, where something before the router takes no such body. @default 200 */
  readonly longBodyStatus?: number;
  /** A parser before the router answers what isn't JSON. @default false */
  readonly parsesBodies?: boolean;
}

/** What an adapter can break beside what `describeGateway` asks: methods, long bodies, connections. */
export function describeMountEdges(
  name: string,
  start: () => Promise<AnyGateway>,
  { ownAnswers = {}, longBodyStatus = 200, parsesBodies = false }: EdgeFacts = {},
): void {
  describe(`the edges of ${name}`, () => {
    let gateway: AnyGateway;

    beforeEach(async () => {
      gateway = await start();
    });

    afterEach(async () => {
      await gateway.close();
    });

    it('leaves every method to the router', async () => {
      const statuses: Record<string, number> = {};
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        const response = await gateway.fetch('/models', { method });
        statuses[method] = response.status;
        if (response.status === 405) expect(response.headers.get('allow')).toBe('GET, HEAD, OPTIONS');
        await response.text();
      }
      const router = { GET: 200, HEAD: 200, POST: 405, PUT: 405, PATCH: 405, DELETE: 405, OPTIONS: 204 };
      expect(statuses).toEqual({ ...router, ...ownAnswers });
    });

    it('answers HEAD with the headers of GET, and no body', async () => {
      const [head, get] = [
        await gateway.fetch('/models', { method: 'HEAD' }),
        await gateway.fetch('/models'),
      ];
      expect([head.status, await head.text()]).toEqual([200, '']);
      expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'));
      await get.text();
    });

    it('refuses a body that is not JSON', async () => {
      const response = await gateway.post('{"model": "acme/fast", "messages": [}');
      expect(response.status).toBe(400);
      const refusal = { error: { code: 'invalid_json', type: 'invalid_request_error' } };
      if (parsesBodies) expect(await response.text()).not.toContain('invalid_json');
      else expect(await response.json()).toMatchObject(refusal);
      expect(gateway.provider.received).toHaveLength(0);
    });

    it(`answers a body of 2 MB with ${longBodyStatus}`, async () => {
      const body = JSON.stringify({ ...QUESTION, padding: 'ä"\\'.repeat(400_000) });
      expect(Buffer.byteLength(body)).toBeGreaterThan(2e6);
      const response = await gateway.post(body);
      expect(response.status).toBe(longBodyStatus);
      await response.text();
      if (longBodyStatus !== 200) return;
      const received = gateway.provider.received[0]?.body.toString();
      expect(received === body.replace('acme/fast', 'upstream-model')).toBe(true);
    });

    it('hands streams to a client that takes gzip as they are', async () => {
      let heard: () => void = () => {};
      gateway.provider.script = async (response) => {
        beginStream(response);
        for (let i = 0; i < 5; i++) {
          const hearing = new Promise<void>((resolve) => (heard = resolve));
          response.write(text(`${i}`));
          await hearing;
        }
        response.end(text('.', 'stop') + USAGE_EVENT + DONE);
      };
      const headers = { 'accept-encoding': 'gzip, br' };
      const response = await gateway.post({ ...QUESTION, stream: true }, { headers });
      expect(response.headers.get('content-encoding')).toBeNull();
      let received = '';
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        received += Buffer.from(chunk).toString();
        heard();
      }
      expect(received).toContain('[DONE]');
    });

    it('serves 20 streams at once, each its own, and charges each', async () => {
      gateway.provider.script = async (response, { body }) => {
        beginStream(response);
        const { user } = JSON.parse(String(body)) as { user: string };
        for (let i = 0; i < 10; i++) {
          response.write(text(`${user};`));
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        response.end(text('.', 'stop') + USAGE_EVENT + DONE);
      };
      const settled = Promise.all(Array.from({ length: 20 }, () => gateway.nextSettled()));
      const answers = await Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          const response = await gateway.post({ ...QUESTION, stream: true, user: `user-${i}` });
          return response.text();
        }),
      );
      answers.forEach((answer, i) => {
        expect(answer.split(`user-${i};`)).toHaveLength(11);
        expect(answer).toContain('[DONE]');
      });
      expect((await settled).length).toBe(20);
      expect(await (await gateway.fetch('/credits')).json()).toMatchObject({
        total_used: '0.0009', // 20 × 45,000 nano-dollars
        held: '0.00',
      });
    });

    it('keeps a connection for the next request, also after a stream', async () => {
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
      const sockets = new Set<unknown>();
      const ask = (method: string, path: string, body?: object): Promise<number> =>
        new Promise((resolve, reject) => {
          const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' };
          const request = http.request(gateway.baseURL + path, { agent, method, headers }, (response) => {
            response.resume().once('end', () => {
              resolve(response.statusCode ?? 0);
            });
          });
          request.once('error', reject).once('socket', (socket) => sockets.add(socket));
          request.end(body && JSON.stringify(body));
        });
      const statuses = [
        await ask('GET', '/models'),
        await ask('POST', '/chat/completions', QUESTION),
        await ask('HEAD', '/models'),
        await ask('POST', '/chat/completions', { ...QUESTION, stream: true }),
        await ask('GET', '/nowhere'),
        await ask('POST', '/chat/completions', { model: 'acme/none', messages: [] }),
        await ask('GET', '/credits'),
      ];
      expect(statuses).toEqual([200, 200, 200, 200, 404, 404, 200]);
      expect(sockets.size).toBe(1);
      agent.destroy();
    });
  });
}
