import { RouterError } from '../errors/router-error.ts';
import { ProviderError } from '../errors/upstream-errors.ts';
import type { ProviderFault } from '../observability/provider-status.ts';
import type { Target } from '../catalog/model.ts';
import { masked } from './provider-errors.ts';

/** Errors that are kept of a provider. */
const MAX_ERRORS = 20;

/** The last errors of each provider. Holds what providers said, which may quote a prompt: for operators alone. */
export class RecentErrors {
  /** By name of the provider, oldest first. Names are those of the options. */
  readonly #byProvider = new Map<string, ProviderFault[]>();

  /**
   * Keeps an error of a provider.
   *
   * @param error - with a ProviderError as its cause where the provider has answered
   */
  add({ provider, model }: Pick<Target, 'provider' | 'model'>, requestId: string, error: Error): void {
    let errors = this.#byProvider.get(provider.name);
    if (!errors) this.#byProvider.set(provider.name, (errors = []));
    if (errors.length >= MAX_ERRORS) errors.shift();
    errors.push({ at: new Date(), model, requestId, ...described(error) });
  }

  /** Newest first. */
  of(provider: string): readonly ProviderFault[] {
    return this.#byProvider.get(provider)?.toReversed() ?? [];
  }
}

function described(error: Error): Pick<ProviderFault, 'status' | 'code' | 'providerCode' | 'message'> {
  const { cause } = error;
  const status = cause instanceof ProviderError ? cause.status : undefined;
  const providerCode = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  return {
    ...(status !== undefined && { status }),
    code: error instanceof RouterError ? error.code : 'internal_error',
    ...(typeof providerCode === 'string' && { providerCode }),
    message: masked(cause instanceof Error && cause.message !== '' ? cause.message : error.message),
  };
}
