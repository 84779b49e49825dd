import type { TargetOptions } from '../../options/model-options.ts';
import type { OutputLimitField, ProviderOptions } from '../../options/provider-options.ts';
import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../../router/router.ts';
import { probeCompletion, type CompletionResult } from './probe-completion.ts';

/** Result of a completion, and whether its stream reported usage. */
export type TargetResult = CompletionResult & { readonly usage?: 'reported' | 'estimated' };

/** A model at a provider, and its body rules. */
export type ProbedTarget = Pick<TargetOptions, 'model'> & {
  readonly body: TargetOptions['body'] | undefined;
};

/** Concurrent requests to a provider. */
const PROBE_CONCURRENCY = 4;

/** Requests one token from each model of a provider, through a router, so that requests are the same as a client's. */
export async function probeTargets(
  label: string,
  options: ProviderOptions,
  limitField: OutputLimitField,
  targets: readonly ProbedTarget[],
  timeoutMs: number,
  onDone: () => void,
): Promise<ReadonlyMap<string, TargetResult>> {
  const results = new Map<string, TargetResult>();
  const sources = new Map<string, string>();
  const timeouts = { connectMs: timeoutMs, firstByteMs: timeoutMs, idleMs: timeoutMs, totalMs: timeoutMs };
  // Without discovery: its models aren't probed here, and need prices that this router doesn't have.
  const { timeouts: __, models: ___, ...provider } = options;
  const router: ChatCompletionsRouter = createChatCompletionsRouter({
    store: 'memory:',
    providers: { [label]: provider },
    models: Object.fromEntries(
      targets.map(({ model, body }, n) => [
        `m${n}`,
        { targets: [{ provider: label, model, ...(body && { body }) }], pricing: 'free' },
      ]),
    ),
    authenticate: () => ({ account: 'check' }),
    retries: false,
    health: false,
    timeouts,
    // The response has the error as well.
    hooks: { onError: () => {}, onSettled: ({ model, usageSource }) => sources.set(model, usageSource) },
  });
  await router.credits.grant('check', '1.00', { id: 'check' });
  const waiting = targets.entries();
  const probeNext = async (): Promise<void> => {
    for (const [n, { model }] of waiting) {
      const result = await probeCompletion(router, `m${n}`, limitField);
      results.set(model, result);
      onDone();
    }
  };
  await Promise.all(Array.from({ length: PROBE_CONCURRENCY }, probeNext));
  await router.close();
  for (const [n, { model }] of targets.entries()) {
    const result = results.get(model);
    const usage = sources.get(`m${n}`) === 'upstream' ? 'reported' : 'estimated';
    if (result?.state === 'ok') results.set(model, { ...result, usage });
  }
  return results;
}
