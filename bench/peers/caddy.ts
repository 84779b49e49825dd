import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { type Peer, versionOf } from './peer.ts';

/** What a proxy in Go costs: one core for Go's scheduler, no buffering, no logs but errors. */
export const caddy: Peer = {
  name: 'Caddy',
  canTls: true,

  install: () => versionOf('caddy', ['version'], /(\d+\.\d+\.\d+)/, 'apt-get install caddy'),

  program: ({ port, upstreamPort, caFile, folder }) => {
    const place = mkdtempSync(join(folder, 'caddy-'));
    const config = join(place, 'Caddyfile');
    const tls = caFile === undefined ? '' : `tls_server_name localhost\n tls_trusted_ca_certs ${caFile}`;
    writeFileSync(
      config,
      `{
         admin off
         auto_https off
         log {
           level ERROR
         }
         servers {
           protocols h1
         }
       }
       http://127.0.0.1:${port} {
         bind 127.0.0.1
         reverse_proxy 127.0.0.1:${upstreamPort} {
           flush_interval -1
           transport http {
             versions 1.1
             keepalive 10m
             keepalive_idle_conns_per_host 512
             ${tls}
           }
         }
       }`,
    );
    return {
      file: 'caddy',
      args: ['run', '--adapter', 'caddyfile', '--config', config],
      folder: place,
      env: { GOMAXPROCS: '1', HOME: place, XDG_DATA_HOME: place, XDG_CONFIG_HOME: place },
    };
  },
};
