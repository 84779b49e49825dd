import type { ChatCompletionsRouter } from '../../src/index.ts';

/** Starts a server of some framework on a free port, with a router behind it. */
export type Mount = (router: ChatCompletionsRouter) => Promise<Mounted>;

export interface Mounted {
  /** Up to and including the path that the router is mounted at, e.g. `http://127.0.0.1:1234/v1`. */
  readonly baseURL: string;
  /** Closes the server and the connections that clients still hold. The router is closed by the suite. */
  close(): Promise<void>;
}

/** What a server does by itself, and the suite allows for. */
export interface MountFacts {
  /** A parser before the router keeps an object only: what goes on is its JSON, not the client's bytes. @default false */
  readonly rendersBodies?: boolean;
  /** The server's response says of text what its charset is. @default false */
  readonly addsCharset?: boolean;
  /** The server reads an answer on whether its client takes it or not. @default false */
  readonly ignoresBackPressure?: boolean;
  /** The server keeps a stream's head until there is a byte of its body. @default false */
  readonly keepsHeads?: boolean;
}
