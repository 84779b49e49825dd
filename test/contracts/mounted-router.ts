import { describe, expect, it } from 'vitest';

import { QUESTION, startGateway } from '../helpers/gateway.ts';
import { beginStream, text } from '../helpers/provider.ts';
import { collectTold } from '../helpers/told.ts';
import type { Mount, MountFacts } from './mount.ts';
import { describeGateway, TIMEOUT_MS } from './router.ts';

/**
 * What the router does behind any server. Called once for each mount, at the top of a Vitest file.
 *
 * Each test starts a fake provider and a router on a store in memory, and has the server started with the router in it.
 * Its client is the official one (`openai`).
 *
 * @param name - of the framework, for the names of the tests
 * @param mount - starts the server; called before each test
 * @param facts - what the server does by itself, and is not held against it
 */
export function describeRouter(name: string, mount: Mount, facts?: MountFacts): void {
  describeGateway(name, () => startGateway({}, mount), facts);

  describe(`hooks of a router on ${name}`, { timeout: TIMEOUT_MS }, () => {
    it('report each request once, as it comes and when it is over', async () => {
      const told = collectTold();
      const gateway = await startGateway({ hooks: [told.hooks] }, mount);
      const ids: (string | null)[] = [];
      const asks = [
        () => gateway.post(QUESTION),
        () => gateway.post({ ...QUESTION, model: 'acme/none' }),
        () => gateway.fetch('/models', { headers: { authorization: 'Bearer sk-none' } }),
      ];
      for (const ask of asks) {
        const next = told.next();
        const response = await ask();
        await response.text();
        ids.push(response.headers.get('x-request-id'));
        expect((await next).status).toBe(response.status);
      }
      expect(told.ended.map(({ status }) => status)).toEqual([200, 404, 401]);
      expect(told.started.map(({ requestId }) => requestId)).toEqual(ids);
      expect(told.ended.map(({ requestId }) => requestId)).toEqual(ids);
      await gateway.close();
    });

    it('report once a client that left in the middle of its stream', async () => {
      const told = collectTold();
      const gateway = await startGateway({ hooks: [told.hooks] }, mount);
      gateway.provider.script = (response) => {
        beginStream(response);
        response.write(text('Hello'));
      };
      const controller = new AbortController();
      const next = told.next();
      const response = await gateway.post({ ...QUESTION, stream: true }, { signal: controller.signal });
      await response.body?.getReader().read();
      controller.abort();
      expect(await next).toMatchObject({ status: 200, ending: 'client_gone', stream: true });
      await gateway.close();
      expect([told.started.length, told.ended.length]).toEqual([1, 1]);
    });
  });
}
