import './platform/require-node.ts';

export { type HonoContextLike, type HonoHandler, toHonoHandler } from './adapters/hono.ts';
