import { once } from 'node:events';
import { connect, createServer } from 'node:http2';
import { type AddressInfo, connect as connectSocket } from 'node:net';

import { expect, it, onTestFinished } from 'vitest';

import { Http2Carrier } from '../../../src/upstream/transport/http2-carrier.ts';
import type { Http2Request } from '../../../src/upstream/transport/http2-request.ts';

const ENDED = { isCancelled: false, isSilent: false };

it('a connection is closed once it stands unused, though its timeout had gone by while a stream was silent', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = connectSocket(port, '127.0.0.1');
  const session = connect(`http://127.0.0.1:${port}`, { createConnection: () => socket });
  onTestFinished(() => {
    session.destroy();
    server.close();
  });
  await once(session, 'remoteSettings');
  const carrier = new Http2Carrier(session, socket, () => {});
  carrier.isWarm = false;
  carrier.start({ start: () => {} } as unknown as Http2Request);
  // As Node says after 30 seconds in which nothing came or went.
  session.emit('timeout');
  expect(session.closed).toBe(false);
  carrier.released(ENDED);
  session.emit('timeout');
  expect(session.closed).toBe(true);
});
