import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { folderOf, installOnce, npmInstall, type Peer, run } from './peer.ts';

const VERSION = 'v2.5.1';
const LAUNCHER = 'bifrost-launcher';
const NAME = 'bifrost';
const BINARY = join(folderOf(NAME), `bifrost/${VERSION}/bin/bifrost-http-0`);

/**
 * Bifrost's gateway, with all stores and logs off and one core for Go's scheduler.
 *
 * It comes by its launcher of npm's, which fetches the program: the module of Go's lacks the page that is built into it,
 * so `go install` can't.
 *
 * @see https://docs.getbifrost.ai/deployment-guides/config-json
 */
export const bifrost: Peer = {
  name: 'Bifrost',

  install: async () => {
    await npmInstall(LAUNCHER, { dependencies: { '@maximhq/bifrost': '1.6.3' } });
    await installOnce(NAME, VERSION, async () => {
      const launcher = join(folderOf(LAUNCHER), 'node_modules/@maximhq/bifrost/bin.js');
      // With -h it ends once it has fetched the program.
      await run(process.execPath, [launcher, '--transport-version', VERSION, '-h'], {
        env: { XDG_CACHE_HOME: folderOf(NAME) },
      });
      if (!existsSync(BINARY)) throw new Error('its launcher did not leave the program where it should');
    });
    return VERSION.slice(1);
  },

  program: ({ port, upstreamPort, folder }) => {
    const place = mkdtempSync(join(folder, `${NAME}-`));
    writeFileSync(
      join(place, 'config.json'),
      JSON.stringify({
        client: { enable_logging: false, enforce_auth_on_inference: false, drop_excess_requests: false },
        config_store: { enabled: false },
        logs_store: { enabled: false },
        providers: {
          openai: {
            keys: [{ name: 'bench', value: 'none', models: ['*'], weight: 1 }],
            network_config: { base_url: `http://127.0.0.1:${upstreamPort}`, allow_private_network: true },
          },
        },
      }),
    );
    return {
      file: BINARY,
      args: `-app-dir ${place} -host 127.0.0.1 -port ${port} -log-level error`.split(' '),
      folder: place,
      env: { GOMAXPROCS: '1' },
      // Under /v1 itself a model's name would need its provider before it.
      path: '/openai/v1/chat/completions',
    };
  },
};
