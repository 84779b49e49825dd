import { once } from 'node:events';

import type { AdminRouter } from '../../admin/admin-router.ts';
import { loadConfig } from '../config/config-file.ts';
import { withConfigErrors } from '../config/with-config-errors.ts';
import type { ServerConfig, ServerOptions } from '../../options/server-options.ts';
import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../../router/router.ts';
import { assertObject, optionError } from '../../options/resolve-options.ts';
import type { Log } from './log.ts';
import { logHooks } from './log-hooks.ts';
import { changedOptions } from './reload.ts';
import { HostNames } from './host-names.ts';
import { createGateway, listen, Readiness } from './server.ts';

export { createLog } from './log.ts';

const DEFAULT_PORT = 8787;
const DEFAULT_HOST = '127.0.0.1';
const DEFAULT_STORE = 'sqlite:./credits.db';

export interface ServeOptions {
  readonly path: string;
  /** Stands above the config's. */
  readonly port: number | undefined;
  readonly host: string | undefined;
  readonly hostNames: readonly string[] | undefined;
  /** Serves the admin door, too. */
  readonly admin: boolean;
  readonly log: Log;
}

/**
 * Serves what a config says, until a signal ends it; the streams that run are finished then.
 *
 * @returns whether all that ran was finished
 * @throws {ConfigError} before it listens, when the config can't be used; an Error when the store or the port can't
 */
export async function serve({ path, port, host, hostNames, admin, log }: ServeOptions): Promise<boolean> {
  const ownNames = hostNames && new HostNames(hostNames, '--host-names');
  const config = await loadConfig(path);
  const { own, router } = withConfigErrors(path, () => ({
    own: resolveServer(config.server),
    router: createRouter(config, log),
  }));
  const readiness = new Readiness(router, log);
  let gateway;
  let origin;
  try {
    const isAdministered = admin || own.admin;
    const adminApi = isAdministered ? await openAdminApi(router, log) : undefined;
    gateway = createGateway({ router, readiness, adminApi, hostNames: ownNames ?? own.hostNames, log });
    await router.ready();
    origin = await listen(gateway, port ?? own.port, host ?? own.host);
  } catch (error) {
    await router.close();
    throw error;
  }
  log('info', 'listening', { url: `${origin}/v1`, config: path, ...sizeOf(config) });

  let reloaded = Promise.resolve();
  const onHangup = (): void => {
    reloaded = reloaded.then(() => reload(path, config, router, log));
  };
  process.on('SIGHUP', onHangup);
  const signal = await receiveSignal(log);
  log('info', 'closing', { signal });
  // It goes on listening: a load balancer hears that nothing more is to come, and a client when to come again.
  readiness.close();
  await router.close();
  const closed = once(gateway, 'close');
  gateway.close();
  gateway.closeAllConnections();
  await closed;
  log('info', 'closed');
  return true;
}

function createRouter(config: ServerConfig, log: Log): ChatCompletionsRouter {
  const { server: _, store = DEFAULT_STORE, hooks = [], ...options } = config;
  return createChatCompletionsRouter({ ...options, store, hooks: [logHooks(log), ...[hooks].flat()] });
}

/** Loaded where it is wanted only, with what checks its input. */
async function openAdminApi(router: ChatCompletionsRouter, log: Log): Promise<AdminRouter> {
  const { createAdminApi: createAdminDoor } = await import('./admin-api.ts');
  return createAdminDoor(router, process.env['ADMIN_TOKEN'], log);
}

/** Takes providers and models of the config as it is now; one that can't be used changes nothing. */
async function reload(
  path: string,
  before: ServerConfig,
  router: ChatCompletionsRouter,
  log: Log,
): Promise<void> {
  try {
    const after = await loadConfig(path);
    const others = changedOptions(before, after);
    withConfigErrors(path, () => {
      resolveServer(after.server);
      router.reload({ providers: after.providers, models: after.models });
    });
    log('info', 'reloaded', { config: path, ...sizeOf(after) });
    if (others.length > 0) log('warn', 'needs_restart', { options: others });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    log('error', 'reload_refused', { message, effect: 'the config that was in use goes on' });
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

/** @throws {TypeError} naming the option that can't be right */
function resolveServer(given: ServerOptions = {}): ResolvedServer {
  assertObject(given, 'server', { port: true, host: true, hostNames: true, admin: true });
  const { admin = false, hostNames } = given;
  if (typeof admin !== 'boolean') throw optionError('server.admin', 'a boolean', admin);
  const { PORT } = process.env;
  const { port = PORT === undefined || PORT === '' ? DEFAULT_PORT : Number(PORT), host = DEFAULT_HOST } =
    given;
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535)) {
    throw optionError(given.port === undefined ? 'PORT of the environment' : 'server.port', 'a port', port);
  }
  if (typeof host !== 'string' || host === '') throw optionError('server.host', 'an address', host);
  return { port, host, admin, hostNames: hostNames && new HostNames(hostNames, 'server.hostNames') };
}

/** The signal by which an operator, a terminal or a container asks to end; a second one ends the process there and then. */
function receiveSignal(log: Log): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isEnding = false;
    const end = (signal: NodeJS.Signals): void => {
      if (isEnding) {
        log('error', 'killed', { signal });
        process.exit(1);
      }
      isEnding = true;
      resolve(signal);
    };
    // They stay: between two listeners a signal would kill.
    process.on('SIGTERM', end).on('SIGINT', end);
  });
}
