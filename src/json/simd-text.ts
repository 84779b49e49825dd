import { SIMD_TEXT } from './simd-text.generated.ts';
import { MAX_TEXT_BYTES, type TextReader } from './text-reader.ts';

/** Where the text is in the module's memory; see simd-text.wat. */
const TEXT_AT = 512;

/** What simd-text.wat exports. */
interface SimdModule {
  readonly memory: { readonly buffer: ArrayBuffer };
  skip(at: number, to: number): number;
}

/** The parts of WebAssembly that are needed; Node's types have none. */
interface WebAssembly {
  readonly Module: new (code: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: SimdModule };
}

/** Reads text 16 bytes at a time, by SIMD instructions of WebAssembly, in a copy in its memory. */
export class SimdText implements TextReader {
  owner: object | undefined;
  asciiChars = 0;
  nonAsciiChars = 0;
  escapes = 0;

  readonly #module: SimdModule;
  readonly #memory: Uint8Array;
  /** Of the last `skip`: characters that aren't ASCII, their further bytes, escapes. */
  readonly #counts: Int32Array;
  /** From an index of the chunk to one of the memory. */
  #shift = 0;
  #end = 0;

  /** @returns undefined where there is no WebAssembly, or none with SIMD */
  static create(): SimdText | undefined {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const { WebAssembly: wasm } = globalThis as { readonly WebAssembly?: WebAssembly };
    if (!wasm) return undefined;
    try {
      return new SimdText(new wasm.Instance(new wasm.Module(Buffer.from(SIMD_TEXT, 'base64'))).exports);
    } catch {
      // No SIMD, or not enough address space.
      return undefined;
    }
  }

  private constructor(module: SimdModule) {
    this.#module = module;
    this.#memory = new Uint8Array(module.memory.buffer, TEXT_AT, MAX_TEXT_BYTES);
    this.#counts = new Int32Array(module.memory.buffer, 0, 3);
  }

  load(bytes: Uint8Array, from: number, to: number): number {
    this.#memory.set(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to));
    this.#shift = TEXT_AT - from;
    this.#end = TEXT_AT + to - from;
    return to;
  }

  skip(index: number): number {
    const to = this.#module.skip(index + this.#shift, this.#end) - this.#shift;
    const counts = this.#counts;
    const nonAscii = counts[0] ?? 0;
    const furtherBytes = counts[1] ?? 0;
    const escapes = counts[2] ?? 0;
    this.nonAsciiChars = nonAscii;
    this.escapes = escapes;
    // An escape is two bytes, and one character.
    this.asciiChars = to - index - nonAscii - furtherBytes - escapes;
    return to;
  }

  release(): void {
    // The next text overwrites this one.
  }
}
