import type { AdminRouter } from '../../admin/admin-router.ts';
import { loadConfig, storeOf } from '../config/config-file.ts';
import { withConfigErrors } from '../config/with-config-errors.ts';
import type { ServerConfig, ServerOptions } from '../../options/server-options.ts';
import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../../router/router.ts';
import { assertObject, optionError } from '../../options/resolve-options.ts';
import type { Log } from './log.ts';
import { logHooks } from './log-hooks.ts';
import { receiveSignal } from './receive-signal.ts';
import { changedOptions } from './reload.ts';
import { HostNames } from './host-names.ts';
import { createGateway, type Gateway, listen, Readiness } from './server.ts';

export { createLog } from './log.ts';

const DEFAULT_PORT = 8787;
const DEFAULT_HOST = '127.0.0.1';

export interface ServeOptions {
  readonly path: string;
  /** Overrides the config's. */
  readonly port: number | undefined;
  readonly host: string | undefined;
  readonly hostNames: readonly string[] | undefined;
  /** Serves the admin API as well. */
  readonly admin: boolean;
  readonly log: Log;
}

/**
 * Runs a server with a config until a signal ends it; running streams are finished first.
 *
 * @returns true once the server has closed
 * @throws {ConfigError} before it listens, for an invalid config; an Error if the store or the port can't be used
 */
export async function serve({ path, port, host, hostNames, admin, log }: ServeOptions): Promise<boolean> {
  const givenNames = hostNames && new HostNames(hostNames, '--host-names');
  const config = await loadConfig(path);
  const { server, router } = withConfigErrors(path, () => ({
    server: resolveServer(config.server),
    router: createRouter({ ...config, store: storeOf(config, path) }, log),
  }));
  const readiness = new Readiness(router, log);
  // Before anything that may hang: without a listener SIGTERM is ignored in a container, and SIGHUP kills the process.
  const signalled = receiveSignal((second) => log('error', 'killed', { signal: second }));
  const { promise: started, resolve: start } = Promise.withResolvers<void>();
  let reloaded = started;
  process.on('SIGHUP', () => {
    reloaded = reloaded.then(() => reload(path, config, router, log));
  });
  let gateway: Gateway | undefined;
  try {
    const adminApi = admin || server.admin ? await openAdminApi(router, log) : undefined;
    gateway = createGateway({
      router,
      readiness,
      adminApi,
      hostNames: givenNames ?? server.hostNames,
      log,
    });
    const early = await Promise.race([router.ready(), signalled]);
    if (early === undefined) {
      const origin = await listen(gateway.server, port ?? server.port, host ?? server.host);
      log('info', 'listening', {
        url: `${origin}/v1`,
        ...((admin || server.admin) && { admin: `${origin}/admin` }),
        config: path,
        ...sizeOf(config),
      });
      start();
    }
    log('info', 'closing', { signal: await signalled });
    // Keeps listening while it closes: load balancers get a 503 from `/readyz`, and clients a `retry-after`.
    readiness.close();
  } finally {
    await closeBoth(router, gateway);
  }
  log('info', 'closed');
  return true;
}

/** The server is closed also if the router can't be: the process must end. */
async function closeBoth(router: ChatCompletionsRouter, gateway: Gateway | undefined): Promise<void> {
  try {
    await router.close();
  } finally {
    await gateway?.close();
  }
}

function createRouter(config: ServerConfig, log: Log): ChatCompletionsRouter {
  const { server: _, hooks = [], ...options } = config;
  return createChatCompletionsRouter({ ...options, hooks: [logHooks(log), ...[hooks].flat()] });
}

/** Loads the admin API and its validation library only if it is served. */
async function openAdminApi(router: ChatCompletionsRouter, log: Log): Promise<AdminRouter> {
  const { createAdminApi } = await import('./admin-api.ts');
  return createAdminApi(router, process.env['ADMIN_TOKEN'], log);
}

/** Reloads providers and models from the config file; an invalid config changes nothing. */
async function reload(
  path: string,
  before: ServerConfig,
  router: ChatCompletionsRouter,
  log: Log,
): Promise<void> {
  try {
    const after = await loadConfig(path);
    const unapplied = changedOptions(before, after);
    withConfigErrors(path, () => {
      resolveServer(after.server);
      router.reload({ providers: after.providers, models: after.models });
    });
    log('info', 'reloaded', { config: path, ...sizeOf(after) });
    if (unapplied.length > 0) log('warn', 'needs_restart', { options: unapplied });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    log('error', 'reload_refused', { message, effect: 'the previous config stays in use' });
  }
}

function sizeOf({ providers, models }: ServerConfig): {
  readonly providers: number;
  readonly models: number;
} {
  return { providers: Object.keys(providers).length, models: Object.keys(models).length };
}

interface ResolvedServer extends Required<Omit<ServerOptions, 'hostNames'>> {
  readonly hostNames: HostNames | undefined;
}

/** @throws {TypeError} naming the invalid option */
function resolveServer(given: ServerOptions = {}): ResolvedServer {
  assertObject(given, 'server', { port: true, host: true, hostNames: true, admin: true });
  const { admin = false, hostNames } = given;
  if (typeof admin !== 'boolean') throw optionError('server.admin', 'a boolean', admin);
  const { PORT } = process.env;
  const { port = PORT === undefined || PORT === '' ? DEFAULT_PORT : Number(PORT), host = DEFAULT_HOST } =
    given;
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535)) {
    if (given.port !== undefined) throw optionError('server.port', 'a port', port);
    throw optionError('PORT in the environment', 'a port', PORT);
  }
  if (typeof host !== 'string' || host === '') throw optionError('server.host', 'an address', host);
  return { port, host, admin, hostNames: hostNames && new HostNames(hostNames, 'server.hostNames') };
}
