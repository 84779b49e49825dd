import { quote, RouterError } from './router-error.ts';

export class ModelNotFoundError extends RouterError {
  readonly status = 404;
  readonly code = 'model_not_found';
  readonly type = 'invalid_request_error';
  override readonly param = 'model';

  /** @param near - an available model with a similar ID */
  constructor(modelId: string, near?: string) {
    const hint = near === undefined ? '' : ` Did you mean ${quote(near)}?`;
    super(`The model ${quote(modelId)} does not exist.${hint} GET /models lists the available models.`);
  }
}

/** The model's announced shutdown date has passed. */
export class ModelShutDownError extends RouterError {
  readonly status = 404;
  readonly code = 'model_shut_down';
  readonly type = 'invalid_request_error';
  override readonly param = 'model';

  constructor(modelId: string, day: string, replacement: string | undefined) {
    const instead =
      replacement === undefined
        ? 'GET /models lists the available models.'
        : `Use ${quote(replacement)} instead.`;
    super(`The model ${quote(modelId)} was shut down on ${day}. ${instead}`);
  }
}

/** The key is restricted to other models. */
export class ModelNotAllowedError extends RouterError {
  readonly status = 403;
  readonly code = 'model_not_allowed';
  readonly type = 'permission_error';
  override readonly param = 'model';

  /** @param patterns - the models that the key may use */
  constructor(modelId: string, patterns: readonly string[]) {
    const shown = patterns.slice(0, 10).map(quote).join(', ');
    const more = patterns.length > 10 ? ` and ${patterns.length - 10} more` : '';
    super(`This key may not use the model ${quote(modelId)}; it may use ${shown}${more}.`);
  }
}

/** The host doesn't show clients the names of providers. */
export class EndpointsHiddenError extends RouterError {
  readonly status = 403;
  readonly code = 'endpoints_hidden';
  readonly type = 'permission_error';

  constructor() {
    super('This server does not show the providers of its models. GET /models lists the available models.');
  }
}

/** No target has what the key, its account and the request require. */
export class NoMatchingTargetError extends RouterError {
  readonly status = 404;
  readonly code = 'no_matching_target';
  readonly type = 'invalid_request_error';
  override readonly param = 'model';

  /** @param excluded - what was required, by whom, and how many targets that excluded, or which */
  constructor(modelIds: readonly string[], excluded: readonly string[]) {
    const ids = modelIds.map((id) => quote(id)).join(', ');
    const shown = excluded.slice(0, 10).join('; ');
    super(`No target of ${ids} has all that is required: ${shown}.`);
  }
}
