export { type HonoContextLike, type HonoHandler, toHonoHandler } from './adapters/hono.ts';
