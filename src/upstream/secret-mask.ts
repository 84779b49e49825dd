import { Transform, type TransformCallback } from 'node:stream';

/** A shorter key, such as Ollama's `ollama`, is a word and no secret. */
const SHORTEST = 16;

/** Puts asterisks in place of a secret, as many as it has bytes, wherever chunks cut it. */
export class SecretMask extends Transform {
  readonly #secret: Buffer;
  /** The end of what came, in which the secret may have begun. */
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
    const passed = Math.max(0, bytes.length - this.#secret.length + 1);
    this.#tail = bytes.subarray(passed);
    done(null, bytes.subarray(0, passed));
  }

  override _flush(done: TransformCallback): void {
    done(null, this.#tail);
  }
}

/** Whether a provider's key is one that nobody else may see. */
export function isSecret(apiKey: string | undefined): apiKey is string {
  return apiKey !== undefined && apiKey.length >= SHORTEST;
}
