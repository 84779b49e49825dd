export {
  type NextHandlers,
  type NextPagesHandler,
  type NextRouter,
  toNextHandlers,
  toNextPagesHandler,
} from './adapters/next.ts';
