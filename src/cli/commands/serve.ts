import { findConfig } from '../config/config-file.ts';
import { count, type PlainCommand, UsageError } from './command.ts';

export const serveCommand: PlainCommand = {
  name: 'serve',
  summary: 'Serve the models of a config, on a server of its own',
  positionals: '',
  options: {
    config: { value: 'FILE', help: 'TypeScript, JavaScript or JSON; that of this folder by default' },
    port: { value: 'PORT', help: "the config's by default, else PORT in the environment, else 8787" },
    host: { value: 'ADDRESS', help: '127.0.0.1 by default; 0.0.0.0 in a container' },
    'host-names': {
      value: 'NAMES',
      help: 'answer no other Host, as gateway.example.com,localhost; any by default',
    },
    admin: { help: 'serve the admin door at /admin; ADMIN_TOKEN in the environment opens it' },
    log: { value: 'FORMAT', help: 'json or text; text on a terminal, else json, by default' },
  },
  async run({ options: { config, port, host, 'host-names': names, admin, log: format } }) {
    const path = config ?? findConfig('.');
    if (path === undefined) throw new UsageError('there is no config in this folder: init makes one');
    if (format !== undefined && format !== 'json' && format !== 'text') {
      throw new UsageError(`--log must be json or text, got ${JSON.stringify(format)}`);
    }
    // What the other commands can do without isn't loaded for them.
    const { createLog, serve } = await import('../serve/serve.ts');
    // A server outlives whoever reads its log: its streams go on, and are charged.
    process.stdout.removeAllListeners('error').on('error', () => {});
    const log = createLog(
      process.stdout,
      format ?? (process.stdout.isTTY ? 'text' : 'json'),
      () => new Date(),
    );
    const hostNames = names?.split(',');
    return serve({ path, port: portNumber(port), host, hostNames, admin: admin !== undefined, log });
  },
};

function portNumber(port: string | undefined): number | undefined {
  if (port === undefined) return undefined;
  const number = count(port, '--port');
  if (number > 65_535) throw new UsageError(`--port must be at most 65535, got ${number}`);
  return number;
}
