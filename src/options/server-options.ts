import type { ChatCompletionsRouterOptions } from './router-options.ts';

/** The default export of a config file of `npx chat-completions-router serve`: the options of the router and the server. */
export interface ServerConfig extends ChatCompletionsRouterOptions {
  readonly server?: ServerOptions;
}

/** Options of the standalone server; `--port` and `--host` take precedence. */
export interface ServerOptions {
  /**
   * The port to listen on; 0 takes any free port.
   *
   * @default the environment variable `PORT`, else 8787
   */
  readonly port?: number;
  /**
   * The address to listen on: `0.0.0.0` for all interfaces, as containers need.
   *
   * @default '127.0.0.1'
   */
  readonly host?: string;
  /**
   * The allowed `Host` names, without ports: `['gateway.example.com', 'localhost', '::1']`. A request with another `Host`
   * is a 421, except for `/healthz` and `/readyz`. This protects against DNS rebinding, where a web page reaches the server
   * by its own name. Case and a trailing dot are ignored.
   *
   * @default any
   */
  readonly hostNames?: readonly string[];
  /**
   * Serves the admin API at `/admin`, for requests with the token in the environment variable `ADMIN_TOKEN`.
   *
   * @default false
   */
  readonly admin?: boolean;
}
