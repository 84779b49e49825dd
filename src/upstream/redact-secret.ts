import { Transform, type TransformCallback } from 'node:stream';

/** A shorter key, such as Ollama's `ollama`, is a placeholder, not a secret. */
const MIN_LENGTH = 16;

/** Replaces each byte of a secret by an asterisk, also where chunks split the secret. */
export class SecretRedactor extends Transform {
  readonly #secret: Buffer;
  /** Last bytes received, if they may be the start of the secret. */
  #tail: Buffer = Buffer.alloc(0);

  constructor(secret: string) {
    super();
    this.#secret = Buffer.from(secret);
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const bytes = Buffer.concat([this.#tail, chunk]);
    for (let at = bytes.indexOf(this.#secret); at !== -1; at = bytes.indexOf(this.#secret, at)) {
      bytes.fill('*', at, at + this.#secret.length);
    }
    const passed = bytes.length - this.#partialMatchLength(bytes);
    this.#tail = bytes.subarray(passed);
    done(null, bytes.subarray(0, passed));
  }

  /** How many of the last bytes are a prefix of the secret. Only those are held back, as no more bytes may come. */
  #partialMatchLength(bytes: Buffer): number {
    let length = Math.min(bytes.length, this.#secret.length - 1);
    while (length > 0 && !bytes.subarray(-length).equals(this.#secret.subarray(0, length))) length--;
    return length;
  }

  override _flush(done: TransformCallback): void {
    done(null, this.#tail);
  }
}

/** Whether a provider's key is secret. */
export function isSecret(apiKey: string | undefined): apiKey is string {
  return apiKey !== undefined && apiKey.length >= MIN_LENGTH;
}
