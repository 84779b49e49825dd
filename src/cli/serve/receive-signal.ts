/**
 * Resolves to the first SIGTERM or SIGINT; a second one ends the process immediately.
 *
 * @param onSecond - called before that
 */
export function receiveSignal(onSecond: (signal: NodeJS.Signals) => void): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isEnding = false;
    const end = (signal: NodeJS.Signals): void => {
      if (isEnding) {
        onSecond(signal);
        process.exit(1);
      }
      isEnding = true;
      resolve(signal);
    };
    // Never removed: without a listener a signal would kill the process.
    process.on('SIGTERM', end).on('SIGINT', end);
  });
}
