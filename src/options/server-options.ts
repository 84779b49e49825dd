import type { ChatCompletionsRouterOptions } from './router-options.ts';

/** What a config file of `npx chat-completions-router serve` exports: the router's options, and the server's. */
export interface ServerConfig extends ChatCompletionsRouterOptions {
  readonly server?: ServerOptions;
}

/** The standalone server; `--port` and `--host` stand above it. */
export interface ServerOptions {
  /**
   * Where it listens; 0 takes any port that is free.
   *
   * @default `PORT` of the environment, else 8787
   */
  readonly port?: number;
  /**
   * The address that it listens at: `0.0.0.0` for all of a machine, as containers need it.
   *
   * @default '127.0.0.1'
   */
  readonly host?: string;
  /**
   * The names that it is asked by, without ports: `['gateway.example.com', 'localhost', '::1']`. A request with another
   * `Host` is a 421, save `/healthz` and `/readyz`; so a page in somebody's browser can't ask it by a name of its own that
   * points here (DNS rebinding). Case and a dot at the end don't count.
   *
   * @default any
   */
  readonly hostNames?: readonly string[];
  /**
   * Serves the admin door at `/admin`, to whoever has the token that is `ADMIN_TOKEN` in the environment.
   *
   * @default false
   */
  readonly admin?: boolean;
}
