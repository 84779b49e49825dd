import './platform/require-node.ts';

export {
  type NextHandlers,
  type NextPagesHandler,
  type NextRouter,
  toNextHandlers,
  toNextPagesHandler,
} from './adapters/next.ts';
