import { SIMD_TEXT } from './simd-text.generated.ts';
import { MAX_LOAD_BYTES, type TextReader } from './text-reader.ts';

/** Where the text is in the module's memory; see simd-text.wat. */
const TEXT_AT = 512;

/** What simd-text.wat exports. */
interface SimdExports {
  readonly memory: { readonly buffer: ArrayBuffer };
  skip(at: number, to: number): number;
}

/** What is needed of the global `WebAssembly`, which Node's types don't have. */
interface Wasm {
  readonly Module: new (code: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: SimdExports };
}

/** Reads text 16 bytes at a time, by SIMD instructions of WebAssembly, in a copy in its memory. */
export class SimdText implements TextReader {
  owner: object | undefined;
  asciiChars = 0;
  nonAsciiChars = 0;
  escapes = 0;

  /** The text, in the module's memory. */
  readonly text: Uint8Array;
  readonly #exports: SimdExports;
  /** Of the last `skip`: characters that aren't ASCII, their further bytes, escapes. */
  readonly #counts: DataView;
  /** From an index of the chunk to one of the memory. */
  #shift = 0;
  #end = 0;

  /** @returns undefined where there is no WebAssembly, or none with SIMD */
  static create(): SimdText | undefined {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const { WebAssembly: wasm } = globalThis as { readonly WebAssembly?: Wasm };
    if (!wasm) return undefined;
    try {
      return new SimdText(new wasm.Instance(new wasm.Module(Buffer.from(SIMD_TEXT, 'base64'))).exports);
    } catch {
      // No SIMD, or not enough address space.
      return undefined;
    }
  }

  private constructor(exports: SimdExports) {
    const { buffer } = exports.memory;
    this.text = new Uint8Array(buffer, TEXT_AT, MAX_LOAD_BYTES);
    this.#exports = exports;
    this.#counts = new DataView(buffer, 0, 12);
  }

  load(bytes: Uint8Array, from: number, to: number): number {
    this.text.set(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to));
    this.#shift = TEXT_AT - from;
    this.#end = TEXT_AT + to - from;
    return to;
  }

  skip(index: number): number {
    const to = this.#exports.skip(index + this.#shift, this.#end) - this.#shift;
    const counts = this.#counts;
    const nonAscii = counts.getInt32(0, true);
    const furtherBytes = counts.getInt32(4, true);
    const escapes = counts.getInt32(8, true);
    this.nonAsciiChars = nonAscii;
    this.escapes = escapes;
    // An escape is two bytes, and one character.
    this.asciiChars = to - index - nonAscii - furtherBytes - escapes;
    return to;
  }

  release(): void {
    this.text.fill(0, 0, this.#end - TEXT_AT);
  }
}
