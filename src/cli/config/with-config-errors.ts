import { ConfigError } from './config-error.ts';

/** Rethrows a TypeError of an option as an error of its config file. */
export function withConfigErrors<Result>(path: string, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (error instanceof TypeError) throw new ConfigError(path, error.message, { cause: error });
    throw error;
  }
}
