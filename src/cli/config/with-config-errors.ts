import { ConfigError } from './config-error.ts';

/** What is wrong with an option is wrong with the file that has it. */
export function withConfigErrors<Result>(path: string, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (error instanceof TypeError) throw new ConfigError(path, error.message, { cause: error });
    throw error;
  }
}
