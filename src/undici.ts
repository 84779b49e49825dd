import './platform/require-node.ts';

export { undiciTransport, type UndiciTransportOptions } from './upstream/transport/undici-transport.ts';
export type { TransportOption } from './options/router-options.ts';
