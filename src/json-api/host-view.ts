import type { IncomingHttpHeaders } from 'node:http';

import type { NodeHandler } from '../adapters/node.ts';
import type { WebHandler } from '../adapters/web.ts';

// The types of an API that its host sees: without the schemas, so that the TypeScript of a host reads none of their library.

/** Mounts as the router itself does: `app.use('/admin', admin)`, `http.createServer(admin)`, `/fastify`, `/koa`, `/hono`, `/next`. */
export interface ApiHandler extends NodeHandler {
  /** The fetch handler. Needs no `this`. */
  readonly fetch: WebHandler;
  /** Resolves once a request is answered and `onAudit` is done with it. `request` is the object that the router was given. */
  settled(request: object): Promise<void>;
}

/** What an API gets of a request to decide whose it is. */
export interface ApiRequest {
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly method: string;
  /**
   * Without the mount, with parameters decoded, but for `/` (`%2F`) and `%` (`%25`): `/accounts/ann@example.com/grants`; the
   * page is `/`. A path that will get a 404 is unchanged.
   */
  readonly path: string;
}

/** Who calls an API: its name for the audit, and what it may do. */
export interface Actor {
  readonly name: string;
  /** An operation that needs another permission gets a 403. */
  readonly may: readonly string[];
  /** The account that it is bound to. */
  readonly account?: string;
}

/** What the OpenAPI document says of an API beside its operations. */
export interface ApiDescription {
  /** As `admin API`, also for messages. */
  readonly name: string;
  readonly about: string;
  /** What its page is, and who gets it. */
  readonly page: string;
  /** The bearer token that it takes, and what else it accepts. */
  readonly token: { readonly name: string; readonly about: string };
}
