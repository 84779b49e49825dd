import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { folderOf, installOnce, type Peer, run } from './peer.ts';

const VERSION = '1.106.2';
const NAME = 'litellm';

/** Those that the benchmark asks for, by name: a wildcard costs it a tenth more of a request. */
const MODELS = ['json-1200', 'stream-50-20', 'stream-500-20', 'stream-200-0', 'stream-1000-2000'];

/** It doesn't start without one. */
const KEY = `sk-${randomBytes(24).toString('hex')}`;

/**
 * LiteLLM's proxy, as its docs would have it in production, and without a database: one worker of uvicorn's, no callbacks,
 * no logs but errors.
 *
 * @see https://docs.litellm.ai/docs/proxy/prod
 */
export const litellm: Peer = {
  name: 'LiteLLM',

  install: async () => {
    const packages = `litellm[proxy]==${VERSION}`;
    await installOnce(NAME, packages, async () => {
      await run('python3', ['-m', 'venv', folderOf(NAME)]);
      const flags = ['--quiet', '--disable-pip-version-check', '--retries', '1'];
      await run(join(folderOf(NAME), 'bin/pip'), ['install', ...flags, packages]);
    });
    return VERSION;
  },

  program: ({ port, upstreamPort, folder }) => {
    const place = mkdtempSync(join(folder, `${NAME}-`));
    const config = join(place, 'config.yaml');
    // JSON is YAML.
    writeFileSync(
      config,
      JSON.stringify({
        model_list: MODELS.map((name) => ({
          model_name: name,
          litellm_params: {
            model: `openai/${name}`,
            api_base: `http://127.0.0.1:${upstreamPort}/v1`,
            api_key: 'none',
          },
        })),
        litellm_settings: { callbacks: [], num_retries: 0, request_timeout: 600, telemetry: false },
      }),
    );
    return {
      file: join(folderOf(NAME), 'bin/litellm'),
      // A closed connection would be a failed request: those of the benchmark may be idle for long.
      args: `--config ${config} --host 127.0.0.1 --port ${port} --num_workers 1 --keepalive_timeout 600`.split(
        ' ',
      ),
      folder: place,
      env: {
        LITELLM_MODE: 'PRODUCTION',
        LITELLM_LOG: 'ERROR',
        LITELLM_MASTER_KEY: KEY,
        // Its list of prices would be fetched at each start.
        LITELLM_LOCAL_MODEL_COST_MAP: 'True',
        DATABASE_URL: undefined,
      },
      key: KEY,
      // It loads much of itself in its first seconds.
      isSlowAtFirst: true,
      // Each costs it a hundredth of a second and more, again and again: thousands would never stand all at once.
      mostStreams: 500,
    };
  },
};
