import { describe, it } from 'vitest';

import { InvalidRequestError } from '../../../src/errors/request-errors.ts';
import type { ChatRequest } from '../../../src/http/chat-request.ts';
import { ChatRequestScanner } from '../../../src/http/scan-request.ts';
import { type RequestEdits, spliceRequest } from '../../../src/http/splice-request.ts';
import type { Random } from '../../simulation/random.ts';
import { cut, fuzz, FUZZ_TIMEOUT, mutated, someText } from './fuzz.ts';
import { ambiguous, editedText, textOf, writeRequest } from './requests.ts';

describe('any request, cut anywhere', FUZZ_TIMEOUT, () => {
  it('is changed where it is to be, and in no other byte', () => {
    fuzz(6000, (random) => {
      const written = writeRequest(random);
      const body = Buffer.from(textOf(written));
      const edits = editsOf(random);
      const request = scan(cut(body, random));
      if (request instanceof InvalidRequestError) throw new Error(`${request.message}\n${body.toString()}`);
      const at = body.length >> 1;
      const halves = [body.subarray(0, at), body.subarray(at)];
      for (const pieces of [[body], halves]) {
        const spliced = Buffer.concat(spliceRequest(pieces, request, edits));
        same(spliced.toString(), editedText(written, edits));
      }
    });
  });

  it('is refused where another parser could read it otherwise', () => {
    fuzz(3000, (random) => {
      const body = Buffer.from(textOf(ambiguous(random, writeRequest(random))));
      same(toldOf(scan(cut(body, random))), toldOf(scan([body])));
      if (scan([body]) instanceof InvalidRequestError) return;
      throw new Error(`taken: ${body.toString()}`);
    });
  });

  it('is taken or refused alike, and is what JSON.parse takes, when it is damaged', () => {
    fuzz(8000, (random) => {
      const body = mutated(Buffer.from(textOf(writeRequest(random))), random);
      const whole = scan([body]);
      same(toldOf(scan(cut(body, random))), toldOf(whole));
      const meant = parse(body);
      if (whole instanceof InvalidRequestError) {
        if (whole.code === 'invalid_json' && meant !== undefined)
          throw new Error(`refused: ${body.toString()}`);
        return;
      }
      if (meant === undefined) throw new Error(`taken: ${body.toString('latin1')}`);
      // By its bytes: of members that stand twice, JSON.parse of V8 returns now one, now the other.
      const { start, end } = whole.edits.model;
      const bytes = body.toString('latin1');
      same(JSON.parse(body.toString('utf8', start, end)), Reflect.get(meant, 'model'));
      const model = someText(random).toWellFormed();
      const spliced = Buffer.concat(spliceRequest([body], whole, { model })).toString('latin1');
      const written = Buffer.from(JSON.stringify(model)).toString('latin1');
      same(spliced, bytes.slice(0, start) + written + bytes.slice(end));
    });
  });

  it('is refused with a byte order mark', () => {
    fuzz(100, (random) => {
      const body = Buffer.from(`\ufeff${textOf(writeRequest(random))}`);
      same(toldOf(scan(cut(body, random))), toldOf(scan([body])));
      same(toldOf(scan([body])).includes('BOM'), true);
    });
  });

  it('is survived where it is no request at all', () => {
    fuzz(15_000, (random) => {
      const alphabet = random.pick([256, 128]);
      const body = Buffer.from(Array.from({ length: random.below(60) }, () => random.below(alphabet)));
      same(toldOf(scan(cut(body, random))), toldOf(scan([body])));
      if (parse(body) === undefined) same(scan([body]) instanceof InvalidRequestError, true);
    });
  });
});

function scan(pieces: readonly Buffer[]): ChatRequest | InvalidRequestError {
  const scanner = new ChatRequestScanner();
  try {
    for (const piece of pieces) scanner.write(piece);
    return scanner.end();
  } catch (error) {
    if (error instanceof InvalidRequestError) return error;
    throw error;
  }
}

function toldOf(scanned: ChatRequest | InvalidRequestError): string {
  return scanned instanceof InvalidRequestError
    ? `${scanned.code} ${scanned.message}`
    : JSON.stringify(scanned);
}

/** As strict a parser as there is: UTF-8 and JSON, and an object. */
function parse(body: Buffer): object | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function editsOf(random: Random): RequestEdits {
  return {
    ...(random.chance(0.7) && { model: someText(random).toWellFormed() }),
    includeUsage: random.chance(0.7),
    ...(random.chance(0.5) && {
      outputLimit: {
        field: random.pick(['max_tokens', 'max_completion_tokens'] as const),
        tokens: random.pick([1, 3, 50, 1000]),
        inserts: random.chance(0.7),
        moves: random.chance(0.7),
      },
    }),
  };
}

function same(told: unknown, expected: unknown): void {
  if (told !== expected) throw new Error(`${String(told)}\ninstead of\n${String(expected)}`);
}
