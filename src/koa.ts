import './platform/require-node.ts';

export { type KoaContextLike, type KoaMiddleware, type KoaOptions, toKoaMiddleware } from './adapters/koa.ts';
