import { JsonScanner, ScannerPool } from '../json/scanner.ts';
import { inTurns } from './body-chunks.ts';
import { type ChatRequest, type MemberPosition, type OptionalFields, RequestReader } from './chat-request.ts';
import { invalidJson } from './invalid-json.ts';

/**
 * One pass over the bytes of a request body, fed chunk by chunk as they arrive.
 *
 * The body is validated as JSON to its last byte, but not parsed: only the few values of a ChatRequest are kept.
 * Don't use it again after it threw.
 */
export class ChatRequestScanner {
  readonly #reader: RequestReader;
  readonly #json: JsonScanner<MemberPosition>;

  /** @param fields - what is read beside the fields that are read of each request */
  constructor(fields: OptionalFields = {}) {
    this.#reader = new RequestReader(fields);
    this.#json = new JsonScanner<MemberPosition>('body', this.#reader);
  }

  /** @throws {InvalidRequestError} as soon as the body is known to be invalid */
  write(chunk: Uint8Array): void {
    if (!this.#json.write(chunk)) throw invalidJson(this.#json);
  }

  /**
   * Scans a large buffer, a few bytes in each turn of the event loop.
   *
   * @throws {InvalidRequestError} as `write` does
   */
  writeInTurns(bytes: Buffer): Promise<void> {
    return inTurns([bytes], (part) => {
      this.write(part);
    });
  }

  /** @throws {InvalidRequestError} if the body is not a complete chat completion request */
  end(): ChatRequest {
    if (!this.#json.end()) throw invalidJson(this.#json);
    return this.#reader.request();
  }
}

/**
 * Scans a small complete body at once.
 *
 * @throws {InvalidRequestError} if it is not a chat completion request
 */
export function scanAtOnce(body: Buffer, fields: OptionalFields): ChatRequest {
  const reader = new RequestReader(fields);
  const json = scanners.take(reader);
  try {
    if (!json.write(body) || !json.end()) throw invalidJson(json);
    return reader.request();
  } finally {
    scanners.giveBack(json);
  }
}

/**
 * Scans a complete body, a few bytes in each turn of the event loop.
 *
 * @throws {InvalidRequestError} if it is not a chat completion request
 */
export async function scanWhole(body: Buffer, fields?: OptionalFields): Promise<ChatRequest> {
  const scanner = new ChatRequestScanner(fields);
  await scanner.writeInTurns(body);
  return scanner.end();
}

const scanners = new ScannerPool<MemberPosition>('body');
