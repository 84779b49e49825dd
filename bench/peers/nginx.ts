import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { type Peer, run } from './peer.ts';

/** The floor: a proxy in C that looks at nothing. */
export const nginx: Peer = {
  name: 'nginx',

  install: async () => {
    try {
      return /nginx\/(\S+)/.exec(await run('nginx', ['-v']))?.[1] ?? 'unknown';
    } catch {
      throw new Error('it is not installed (apt-get install nginx-light)');
    }
  },

  program: ({ port, upstreamPort, folder }) => {
    const prefix = mkdtempSync(join(folder, 'nginx-'));
    const conf = join(prefix, 'nginx.conf');
    writeFileSync(
      conf,
      `daemon off; worker_processes 1; pid ${prefix}/pid; error_log /dev/null;
       events { worker_connections 20000; }
       http {
         access_log off; client_max_body_size 100m; client_body_buffer_size 2m; keepalive_requests 1000000;
         client_body_temp_path ${prefix}; proxy_temp_path ${prefix}; fastcgi_temp_path ${prefix};
         uwsgi_temp_path ${prefix}; scgi_temp_path ${prefix};
         upstream provider { server 127.0.0.1:${upstreamPort}; keepalive 512; keepalive_requests 1000000; }
         server {
           listen 127.0.0.1:${port} backlog=8192;
           location / { proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }
         }
       }`,
    );
    return { file: 'nginx', args: ['-p', prefix, '-c', conf], folder: prefix };
  },
};
