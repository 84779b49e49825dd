import type { ChatCompletionsRouter } from '../../router/router.ts';

/** Result of a completion of one token. */
export type CompletionResult =
  | { readonly state: 'ok'; readonly firstByteMs: number }
  | { readonly state: 'failed'; readonly problem: string };

/** Output limits to try: reasoning models reject a limit of one token. */
const TOKEN_LIMITS = [1, 16];

/** Requests one token through a router, as a client does. Never rejects. */
export async function probeCompletion(
  router: ChatCompletionsRouter,
  model: string,
  limitField: string,
): Promise<CompletionResult> {
  let result: CompletionResult = { state: 'failed', problem: 'no request was sent' };
  for (const tokens of TOKEN_LIMITS) {
    const { isBadRequest, ...probed } = await probeOnce(router, model, { [limitField]: tokens });
    result = probed;
    if (!isBadRequest) break;
  }
  return result;
}

async function probeOnce(
  router: ChatCompletionsRouter,
  model: string,
  limit: object,
): Promise<CompletionResult & { readonly isBadRequest?: boolean }> {
  const startedAt = performance.now();
  const request = new Request('http://check.invalid/v1/chat/completions', {
    method: 'POST',
    headers: { authorization: 'Bearer check', 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], stream: true, ...limit }),
  });
  try {
    const response = await router.fetch(request);
    let firstByteMs: number | undefined;
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      firstByteMs ??= Math.round(performance.now() - startedAt);
      text += decoder.decode(chunk, { stream: true });
    }
    const broken = /^data: (\{"error":.*)$/m.exec(text)?.[1];
    if (response.status !== 200 || broken !== undefined) {
      const problem = `${response.status}: ${messageOf(broken ?? text)}`;
      return { state: 'failed', problem, isBadRequest: response.status === 400 };
    }
    if (!text.includes('"choices"')) return { state: 'failed', problem: '200, but not a completion' };
    return { state: 'ok', firstByteMs: firstByteMs ?? 0 };
  } catch (error) {
    return { state: 'failed', problem: error instanceof Error ? error.message : String(error) };
  }
}

const MAX_MESSAGE_LENGTH = 200;

/** The message of an error body, on a line. */
function messageOf(text: string): string {
  let message: unknown;
  try {
    message = Reflect.get(Object(Reflect.get(Object(JSON.parse(text)), 'error')), 'message');
  } catch {
    // Not JSON: shown unchanged.
  }
  const line = (typeof message === 'string' ? message : text).replaceAll(/\s+/g, ' ').trim();
  return line.length > MAX_MESSAGE_LENGTH ? `${line.slice(0, MAX_MESSAGE_LENGTH)}…` : line;
}
