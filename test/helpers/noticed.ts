import * as http from 'node:http';

import { listen, type Mount } from './gateway.ts';

/** A mount on Node's own server, and when its router has noticed that clients left. */
export interface Noticing {
  readonly mount: Mount;
  /** Resolves once so many connections were closed by their clients before their answers were over. */
  left(clients: number): Promise<void>;
}

export function noticing(): Noticing {
  let count = 0;
  let waiting: { readonly clients: number; readonly resolve: () => void }[] = [];
  return {
    mount: (router) =>
      listen(
        http.createServer((request, response) => {
          response.once('close', () => {
            if (response.writableFinished) return;
            count += 1;
            for (const { clients, resolve } of waiting) if (clients <= count) resolve();
            waiting = waiting.filter(({ clients }) => clients > count);
          });
          void router(request, response);
        }),
        '/v1',
      ),
    left: (clients) =>
      new Promise((resolve) => {
        if (count >= clients) resolve();
        else waiting.push({ clients, resolve });
      }),
  };
}
