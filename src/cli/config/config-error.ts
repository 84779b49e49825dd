/** An invalid config; the message names its file and the option. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';

  constructor(path: string, message: string, options?: ErrorOptions) {
    super(`${path}: ${message}`, options);
  }
}
