import type { TargetOptions } from '../../options/model-options.ts';
import type { OutputLimitField, ProviderOptions } from '../../options/provider-options.ts';
import { type ChatCompletionsRouter, createChatCompletionsRouter } from '../../router/router.ts';
import { probeCompletion, type CompletionResult } from './probe-completion.ts';

/** How a completion went, and whether its stream said what it used. */
export type TargetResult = CompletionResult & { readonly usage?: 'reported' | 'estimated' };

/** A model at a provider, and the rules by which its requests are written. */
export type ProbedTarget = Pick<TargetOptions, 'model'> & {
  readonly body: TargetOptions['body'] | undefined;
};

/** Models of a provider that are asked at a time. */
const PROBE_CONCURRENCY = 4;

/** Asks models of a provider for a token each, through a router of its own: what is asked is what a client's request would be. */
export async function probeTargets(
  label: string,
  options: ProviderOptions,
  limitField: OutputLimitField,
  targets: readonly ProbedTarget[],
  timeoutMs: number,
  done: () => void,
): Promise<ReadonlyMap<string, TargetResult>> {
  const answers = new Map<string, TargetResult>();
  const sources = new Map<string, string>();
  const timeouts = { connectMs: timeoutMs, firstByteMs: timeoutMs, idleMs: timeoutMs, totalMs: timeoutMs };
  // What it discovers itself isn't asked here, and would want prices that this router has not.
  const { timeouts: __, models: ___, ...asIs } = options;
  const router: ChatCompletionsRouter = createChatCompletionsRouter({
    store: 'memory:',
    providers: { [label]: asIs },
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
    // What they are told stands in the answer as well.
    hooks: { onError: () => {}, onSettled: ({ model, usageSource }) => sources.set(model, usageSource) },
  });
  await router.credits.grant('check', '1.00', { id: 'check' });
  const waiting = targets.entries();
  const askNext = async (): Promise<void> => {
    for (const [n, { model }] of waiting) {
      const answer = await probeCompletion(router, `m${n}`, limitField);
      answers.set(model, answer);
      done();
    }
  };
  await Promise.all(Array.from({ length: PROBE_CONCURRENCY }, askNext));
  await router.close();
  for (const [n, { model }] of targets.entries()) {
    const answer = answers.get(model);
    const usage = sources.get(`m${n}`) === 'upstream' ? 'reported' : 'estimated';
    if (answer?.state === 'ok') answers.set(model, { ...answer, usage });
  }
  return answers;
}
