/**
 * What is here at once, or comes later.
 *
 * A function of the way of a request returns one where it often needs no promise: each costs a request time and memory.
 */
export type Answer<T> = T | Promise<T>;

/** Whether it is a promise. Objects of another realm or library count, too. */
export function isLater<T>(answer: Answer<T>): answer is Promise<T> {
  return typeof answer === 'object' && answer !== null && 'then' in answer;
}

/** Calls `next` with the answer: now if it is here, so that what follows needs no promise either. */
export function andThen<T, Next>(answer: Answer<T>, next: (value: T) => Answer<Next>): Answer<Next> {
  // oxlint-disable-next-line promise/no-callback-in-promise -- not a callback of Node's: what it throws rejects
  return isLater(answer) ? answer.then(next) : next(answer);
}

/** What was thrown, as a rejection. */
export async function rejection(error: unknown): Promise<never> {
  throw error;
}
