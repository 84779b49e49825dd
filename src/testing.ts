import './platform/require-node.ts';

export { chunk, DONE } from './testing/chunk.ts';
export { completion, type CompletionFields, type FakeToolCall } from './testing/completion.ts';
export type { DialectName, TokenCounts } from './testing/dialects.ts';
export { type FakeProvider, type FakeProviderOptions, startFakeProvider } from './testing/fake-provider.ts';
export type { FakeModel } from './testing/model-list.ts';
export type { ReceivedRequest, RequestFields } from './testing/received-request.ts';
export { error, type ErrorFields, html, rateLimited } from './testing/refusals.ts';
export {
  drip,
  end,
  hang,
  hangUp,
  head,
  type Part,
  pause,
  raw,
  repeat,
  reset,
  respond,
  type Script,
  sequence,
  stream,
  truncated,
} from './testing/script.ts';
