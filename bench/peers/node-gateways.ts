import { join } from 'node:path';

import type { Program } from '../foreign.ts';
import { folderOf, npmInstall, type Peer, type Place } from './peer.ts';

const FOLDER = 'node-gateways';

const VERSIONS = {
  '@portkey-ai/gateway': '1.15.2',
  '@llmops/gateway': '0.6.10',
  '@hono/node-server': '1.14.1',
};

const install = (): Promise<void> =>
  npmInstall(FOLDER, {
    dependencies: VERSIONS,
    // With a later one, Portkey answers every stream with 500: https://github.com/Portkey-AI/gateway/issues/1389
    overrides: { '@hono/node-server': VERSIONS['@hono/node-server'] },
  });

/** Both take the provider from the request's headers, each from its own. */
function ofNode(args: readonly string[], prefix: string, { upstreamPort }: Place): Program {
  return {
    file: process.execPath,
    args,
    folder: folderOf(FOLDER),
    isSlowAtFirst: true,
    headers: {
      [`x-${prefix}-provider`]: 'openai',
      [`x-${prefix}-custom-host`]: `http://127.0.0.1:${upstreamPort}/v1`,
    },
  };
}

export const portkey: Peer = {
  name: 'Portkey',

  install: async () => {
    await install();
    return VERSIONS['@portkey-ai/gateway'];
  },

  program: (place) => {
    const server = join(folderOf(FOLDER), 'node_modules/@portkey-ai/gateway/build/start-server.js');
    return ofNode([server, `--port=${place.port}`, '--headless'], 'portkey', place);
  },
};

/** A fork of Portkey's, which comes without a server. */
export const llmops: Peer = {
  name: 'LLMOps',

  install: async () => {
    await install();
    return VERSIONS['@llmops/gateway'];
  },

  program: (place) => {
    const server = `import { serve } from '@hono/node-server'; import gateway from '@llmops/gateway'; serve({ fetch: gateway.fetch, port: ${place.port} });`;
    return ofNode(['--input-type=module', '--eval', server], 'llmops', place);
  },
};
