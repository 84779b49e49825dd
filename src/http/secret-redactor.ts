/** Replaces each byte of a secret by an asterisk, also where chunks split the secret. The chunks themselves aren't changed. */
export class SecretRedactor {
  readonly #secret: Buffer;
  /** Last bytes received, if they may be the start of the secret. */
  #tail: Buffer = NOTHING;

  constructor(secret: string) {
    this.#secret = Buffer.from(secret);
  }

  /** Takes the next bytes, and returns those that can be sent now. */
  write(chunk: Buffer): readonly Buffer[] {
    const bytes = Buffer.concat([this.#tail, chunk]);
    for (let at = bytes.indexOf(this.#secret); at !== -1; at = bytes.indexOf(this.#secret, at)) {
      bytes.fill('*', at, at + this.#secret.length);
    }
    const passed = bytes.length - this.#partialMatchLength(bytes);
    this.#tail = bytes.subarray(passed);
    return passed > 0 ? [bytes.subarray(0, passed)] : [];
  }

  /** No more bytes will come: returns what was held back. */
  end(): readonly Buffer[] {
    const tail = this.#tail;
    this.#tail = NOTHING;
    return tail.length > 0 ? [tail] : [];
  }

  /** How many of the last bytes are a prefix of the secret. Only those are held back, as no more bytes may come. */
  #partialMatchLength(bytes: Buffer): number {
    let length = Math.min(bytes.length, this.#secret.length - 1);
    while (length > 0 && !bytes.subarray(-length).equals(this.#secret.subarray(0, length))) length--;
    return length;
  }
}

const NOTHING = Buffer.alloc(0);
