/** Whether a string is a valid model ID, safe in paths, headers and journals. */
export function isModelId(id: string): boolean {
  // eslint-disable-next-line no-control-regex -- that is what must not be in it
  return id !== '' && id.length <= 256 && !/^\/|\/$|[\u0000-\u0020\u007f]/.test(id) && id.isWellFormed();
}

/** @throws {TypeError} naming the option */
export function checkModelId(id: string, option: string): void {
  if (isModelId(id)) return;
  throw new TypeError(`${option}: a model ID has 1 to 256 characters, no spaces, and no slash at either end`);
}
