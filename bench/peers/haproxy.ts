import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { type Peer, versionOf } from './peer.ts';

/** A proxy in C with one thread, which passes each chunk on at once. */
export const haproxy: Peer = {
  name: 'HAProxy',
  canTls: true,

  install: () => versionOf('haproxy', ['-v'], /version (\d+\.\d+\.\d+)/, 'apt-get install haproxy'),

  program: ({ port, upstreamPort, caFile, folder }) => {
    const place = mkdtempSync(join(folder, 'haproxy-'));
    const config = join(place, 'haproxy.cfg');
    const tls =
      caFile === undefined
        ? ''
        : `ssl verify required ca-file ${caFile} sni str(localhost) verifyhost localhost alpn http/1.1`;
    writeFileSync(
      config,
      `global
         nbthread 1
         maxconn 8000
       defaults
         mode http
         option http-keep-alive
         option http-no-delay
         http-reuse always
         timeout connect 5s
         timeout client 10m
         timeout server 10m
       frontend clients
         bind 127.0.0.1:${port} backlog 8192
         default_backend provider
       backend provider
         server provider 127.0.0.1:${upstreamPort} pool-max-conn 512 pool-purge-delay 10m ${tls}
`,
    );
    return { file: 'haproxy', args: ['-db', '-f', config], folder: place };
  },
};
