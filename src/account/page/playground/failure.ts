/** Why there is no answer, or not all of one. */
export interface Failure {
  /** What it means, for a customer. */
  readonly text: string;
  /** What the API said. */
  readonly detail: string;
  readonly code: string | undefined;
}

/** @param status - 0 if there was no response, 200 if the stream said it */
export function failureOf(status: number, body: string): Failure {
  const { message, code } = errorIn(body);
  return { text: TEXTS[code ?? ''] ?? textOf(status), detail: message ?? '', code };
}

function errorIn(body: string): { message?: string; code?: string } {
  try {
    const { error }: { error?: { message?: unknown; code?: unknown } } = JSON.parse(body);
    return {
      ...(typeof error?.message === 'string' && { message: error.message }),
      ...(typeof error?.code === 'string' && { code: error.code }),
    };
  } catch {
    return {};
  }
}

const TEXTS: Readonly<Record<string, string>> = {
  insufficient_credits: 'Your credits do not cover this request. Add credits, or lower the output limit.',
  credits_exhausted: 'Your credits ended during this answer.',
  budget_exceeded: 'A budget of your key or account is used up. Wait until it is renewed, or raise it.',
  account_frozen: 'This account is on hold. Your credits are safe: contact support.',
  model_not_allowed: 'Your key may not use this model. Choose another one.',
  model_not_found: 'This model is not available any more. Choose another one.',
};

function textOf(status: number): string {
  if (status === 0) return 'The server does not answer. Check your connection, and try again.';
  if (status === 401) return 'Your session has ended. Sign in again.';
  if (status === 429) return 'Too many requests at the moment. Wait a little, and try again.';
  if (status === 503) return 'The service is busy or away at the moment. Try again in a moment.';
  if (status >= 500) return 'The model failed to answer. Try again, or choose another model.';
  if (status >= 400) return 'This request was not accepted.';
  return 'The answer broke off. Try again.';
}
