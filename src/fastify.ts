import './platform/require-node.ts';

export {
  type FastifyInstanceLike,
  type FastifyPlugin,
  type FastifyReplyLike,
  type FastifyRequestLike,
  toFastifyHandler,
  toFastifyPlugin,
} from './adapters/fastify.ts';
