import { findConfig } from '../config/config-file.ts';
import { type PlainCommand, portNumber, UsageError } from './command.ts';

export const serveCommand: PlainCommand = {
  name: 'serve',
  summary: 'Run a standalone server with the models of a config',
  positionals: '',
  options: {
    config: { value: 'FILE', help: 'TypeScript, JavaScript or JSON; default: the one in this folder' },
    port: { value: 'PORT', help: "default: the config's, else PORT in the environment, else 8787" },
    host: { value: 'ADDRESS', help: 'default: 127.0.0.1; in a container 0.0.0.0' },
    'host-names': {
      value: 'NAMES',
      help: 'accepted Host headers, e.g. gateway.example.com,localhost; default: all',
    },
    admin: { help: 'serve the admin API at /admin; its token is ADMIN_TOKEN in the environment' },
    log: { value: 'FORMAT', help: 'json or text; default: text on a terminal, else json' },
  },
  async run({ options: { config, port, host, 'host-names': names, admin, log: format } }) {
    const path = config ?? findConfig('.');
    if (path === undefined) throw new UsageError('no config in this folder; init creates one');
    if (format !== undefined && format !== 'json' && format !== 'text') {
      throw new UsageError(`--log must be json or text, got ${JSON.stringify(format)}`);
    }
    // Loaded late: the other commands don't need it.
    const { createLog, serve } = await import('../serve/serve.ts');
    // The server must survive a closed log pipe: its streams continue and are charged.
    process.stdout.removeAllListeners('error').on('error', () => {});
    const log = createLog(
      process.stdout,
      format ?? (process.stdout.isTTY ? 'text' : 'json'),
      () => new Date(),
    );
    const hostNames = names?.split(',');
    return serve({
      path,
      port: port === undefined ? undefined : portNumber(port, '--port'),
      host,
      hostNames,
      admin: admin !== undefined,
      log,
    });
  },
};
