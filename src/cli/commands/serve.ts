import { type PlainCommand, portNumber } from './command.ts';
import { requireConfig } from './find-store.ts';

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
    log: {
      value: 'FORMAT',
      choices: ['json', 'text'],
      help: 'json or text; default: text on a terminal, else json',
    },
  },
  examples: ['serve --port 8787 --env-file .env', 'serve --host 0.0.0.0 --admin --log json'],
  async run({ options: { config, port, host, 'host-names': names, admin, log: format } }) {
    const path = requireConfig(config);
    // Loaded late: the other commands don't need it.
    const { createLog, serve } = await import('../serve/serve.ts');
    // The server must survive a closed log pipe: its streams continue and are charged.
    process.stdout.removeAllListeners('error').on('error', () => {});
    const log = createLog(
      process.stdout,
      (format ?? (process.stdout.isTTY ? 'text' : 'json')) === 'text' ? 'text' : 'json',
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
