import { runs } from '../../helpers/runs.ts';
import { Random } from '../../simulation/random.ts';

const { FUZZ_SEED: replayed, FUZZ_TIMES: times = '1' } = process.env;

/** How long a test of so many cases may take. */
export const FUZZ_TIMEOUT = { timeout: 60_000 * Number(times) };
/** Whether one case is run again, and no more. */
export const isReplay = replayed !== undefined;

/**
 * Runs a case for each of so many seeds, other ones each time; a tenth of them in `npm test`.
 *
 * What fails names its seed: `FUZZ_SEED=n vitest run test/unit/fuzz` is that case alone. `FUZZ_TIMES=50` runs
 * fifty times as many.
 */
export function fuzz(cases: number, run: (random: Random) => void): void {
  const first = replayed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(replayed);
  const count = isReplay ? 1 : runs(cases * Number(times));
  for (let i = 0; i < count; i++) {
    const seed = (first + i) % 2 ** 31;
    try {
      run(new Random(seed));
    } catch (error) {
      throw new Error(`FUZZ_SEED=${seed}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  }
}

/** Bytes cut at random places; some pieces are empty, some a byte long. */
export function cut(bytes: Buffer, random: Random): Buffer[] {
  const cuts = random.pick([
    () => Array.from({ length: random.below(4) }, () => random.below(bytes.length + 1)),
    () => Array.from({ length: random.below(40) }, () => random.below(bytes.length + 1)),
    // Around one place, where a token may be.
    () => {
      const at = random.below(bytes.length + 1);
      return Array.from({ length: 8 }, (_, n) => Math.min(bytes.length, at + n));
    },
  ])();
  const places = [0, ...cuts.sort((a, b) => a - b), bytes.length];
  return places.slice(1).map((to, n) => bytes.subarray(places[n], to));
}

/** Changes a few bytes: others in their place, left out, put in, or repeated. */
export function mutated(bytes: Buffer, random: Random): Buffer {
  let result = bytes;
  for (let n = random.between(1, 4); n > 0; n--) {
    const from = random.below(result.length + 1);
    const to = Math.min(result.length, from + random.pick([0, 1, 1, 2, 16]));
    const put = random.pick<() => Uint8Array>([
      () => Buffer.alloc(0),
      () => Uint8Array.of(random.below(256)),
      () => Uint8Array.of(random.below(256), random.below(256)),
      () =>
        Buffer.from(
          random.pick(['"', '\\', '{', '}', '[', ']', ',', ':', '\n', '\r', ' ', '\ufeff', '\\u', '0', '-']),
        ),
      // What is no UTF-8: a surrogate, an overlong form, a character beyond the last, half a one.
      () => Buffer.from(random.pick(['eda080', 'c080', 'e08080', 'f4908080', 'c3', 'f09f98']), 'hex'),
      () => result.subarray(from, to + 8),
    ])();
    result = Buffer.concat([result.subarray(0, from), put, result.subarray(to)]);
  }
  return result;
}

/** Text of all kinds: plain, of many bytes, with what JSON escapes, and like what is looked for. */
export function someText(random: Random): string {
  const length = random.pick([0, 1, 3, 12]);
  return Array.from({ length }, () =>
    random.pick([
      'a',
      'Z',
      '7',
      ' ',
      'é',
      '漢',
      '😀',
      '"',
      '\\',
      '\n',
      '\r',
      '\u0000',
      '\u2028',
      '\ud800',
      '\udc00',
      '\ufeff',
      'data: ',
      '[DONE]',
      '"usage":{"prompt_tokens":1}',
      '\n\n',
      '{',
      '}',
    ]),
  ).join('');
}
