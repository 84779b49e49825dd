import * as http from 'node:http';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { MemoryStore, type Settle, type SettleResult } from '../../../src/index.ts';
import { toNextPagesHandler } from '../../../src/next.ts';
import {
  type Gateway,
  listen,
  type Mount,
  mountOnNode,
  QUESTION,
  startGateway,
} from '../../helpers/gateway.ts';
import { createWebServer } from '../../helpers/web-server.ts';

/** A store that posts no charge before it is told to. */
class SlowStore extends MemoryStore {
  post: () => void = () => {};
  readonly #posting = new Promise<void>((resolve) => {
    this.post = resolve;
  });

  override async settle(command: Settle): Promise<SettleResult> {
    await this.#posting;
    return super.settle(command);
  }
}

/** Calls back when a promise is settled, to find out when it is not. */
function watch(promise: Promise<unknown>): { readonly done: boolean } {
  const watched = { done: false };
  void promise.then(() => (watched.done = true));
  return watched;
}

describe('a host that stops when no client waits', () => {
  let store: SlowStore;
  let gateway: Gateway;

  beforeEach(() => {
    store = new SlowStore();
  });

  afterEach(async () => {
    store.post();
    await gateway.close();
  });

  const mountOnWeb: Mount = (router) => listen(createWebServer(router.fetch), '/v1');

  it.each<[string, Mount]>([
    ['Node', mountOnNode],
    ['Web', mountOnWeb],
  ])('is given, at the %s door, what goes on after the response', async (_door, mount) => {
    const works: Promise<void>[] = [];
    gateway = await startGateway({ store, waitUntil: (work) => works.push(work) }, mount);
    await (await gateway.post(QUESTION)).text();
    expect(works).toHaveLength(1);
    const work = watch(works[0]!);
    await (await gateway.fetch('/models')).text();
    await works[1];
    expect(work.done).toBe(false);
    expect(gateway.settled).toHaveLength(0);
    store.post();
    await works[0];
    expect(gateway.settled).toHaveLength(1);
  });

  it('does not report a response of its own that throws: that is for the caller of the handler', async () => {
    const works: Promise<void>[] = [];
    const doors: Promise<unknown>[] = [];
    const mount: Mount = (router) => {
      const server = http.createServer((request, response) => {
        response.writeHead = () => {
          throw new Error('no head');
        };
        const door = router(request, response).catch((error: unknown) => {
          response.destroy();
          return error;
        });
        doors.push(door);
      });
      return listen(server, '/v1');
    };
    gateway = await startGateway({ store, waitUntil: (work) => works.push(work) }, mount);
    await gateway.fetch('/models').catch(() => 'closed');
    expect(await doors[0]).toEqual(new Error('no head'));
    await expect(works[0]).resolves.toBeUndefined();
  });

  it('may throw when it is given that', async () => {
    const refuse = (): never => {
      throw new Error('not here');
    };
    gateway = await startGateway({ store, waitUntil: refuse });
    expect((await gateway.fetch('/models')).status).toBe(200);
  });

  it('can ask for it, while the request runs, after its end, and of one that never was', async () => {
    let given: http.IncomingMessage | undefined;
    gateway = await startGateway({ store }, (router) => {
      const server = http.createServer((request, response) => {
        given = request;
        void router(request, response);
      });
      return listen(server, '/v1');
    });
    const running = gateway.provider.next();
    const asked = gateway.post(QUESTION);
    await running;
    const during = gateway.router.settled(given!);
    await (await asked).text();
    const after = gateway.router.settled(given!);
    const watched = [watch(during), watch(after)];
    await gateway.router.settled({});
    await (await gateway.fetch('/credits')).text();
    expect(watched).toEqual([{ done: false }, { done: false }]);
    store.post();
    await Promise.all([during, after]);
    expect(gateway.settled).toHaveLength(1);
    await gateway.router.settled(given!);
  });

  it("waits for a handler of Next.js's Pages Router, which resolves when all is done", async () => {
    let returned: Promise<void> | undefined;
    gateway = await startGateway({ store }, (router) => {
      const handler = toNextPagesHandler(router);
      const server = http.createServer((request, response) => {
        returned = handler(request, response);
      });
      return listen(server, '/api/v1');
    });
    await (await gateway.post(QUESTION)).text();
    const watched = watch(returned!);
    const first = returned;
    await (await gateway.fetch('/models')).text();
    await returned;
    expect(watched.done).toBe(false);
    store.post();
    await first;
    expect(gateway.settled).toHaveLength(1);
  });
});
