import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { type Peer, versionOf } from './peer.ts';

/** The floor: a proxy in C that looks at nothing. */
export const nginx: Peer = {
  name: 'nginx',
  canTls: true,

  install: () => versionOf('nginx', ['-v'], /nginx\/(\S+)/, 'apt-get install nginx-light'),

  program: ({ port, upstreamPort, caFile, folder }) => {
    const prefix = mkdtempSync(join(folder, 'nginx-'));
    const conf = join(prefix, 'nginx.conf');
    const tls =
      caFile === undefined
        ? ''
        : `proxy_ssl_verify on; proxy_ssl_trusted_certificate ${caFile}; proxy_ssl_name localhost; proxy_ssl_server_name on;`;
    writeFileSync(
      conf,
      `daemon off; worker_processes 1; pid ${prefix}/pid; error_log /dev/null;
       events { worker_connections 20000; }
       http {
         access_log off; client_max_body_size 100m; client_body_buffer_size 2m; keepalive_requests 1000000;
         client_body_temp_path ${prefix}; proxy_temp_path ${prefix}; fastcgi_temp_path ${prefix};
         uwsgi_temp_path ${prefix}; scgi_temp_path ${prefix};
         upstream provider { server 127.0.0.1:${upstreamPort}; keepalive 512; keepalive_requests 1000000; keepalive_timeout 10m; }
         server {
           listen 127.0.0.1:${port} backlog=8192;
           location / {
             proxy_pass ${caFile === undefined ? 'http' : 'https'}://provider; ${tls}
             proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
           }
         }
       }`,
    );
    return { file: 'nginx', args: ['-p', prefix, '-c', conf], folder: prefix };
  },
};
