/** What the providers of the benchmark answer, whatever protocol carries it. */

export const USAGE = '"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}';

export const JSON_START =
  '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop",' +
  '"message":{"role":"assistant","content":"';

// LiteLLM takes a hundred chunks that are all the same for a model that hangs, and breaks off.
const FILLERS = ['x'.repeat(40), 'y'.repeat(40)];

/** The n-th event of a stream. */
export function event(n: number): string {
  return (
    `data: {"id":"t${process.hrtime.bigint()}","object":"chat.completion.chunk","created":1790000000,"model":"stream",` +
    `"choices":[{"index":0,"delta":{"content":"${FILLERS[n % 2]}"},"logprobs":null,"finish_reason":null}],"usage":null}\n\n`
  );
}

const LAST = '{"id":"e","object":"chat.completion.chunk","created":1,"model":"stream"';

export const LAST_EVENTS: readonly string[] = [
  `data: ${LAST},"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n`,
  `data: ${LAST},"choices":[],${USAGE}}\n\ndata: [DONE]\n\n`,
];
