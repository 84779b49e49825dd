/** A thrown value as an Error. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** A copy of a system error without the answer's bytes, which a parse error holds: safe to keep and log as a cause. */
export function withoutAnswerBytes(error: Error): Error {
  const code = 'code' in error ? { code: error.code } : {};
  return Object.assign(new Error(error.message), code);
}
