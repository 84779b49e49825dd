import type { ChatRequest } from '../../src/http/chat-request.ts';
import { ChatRequestScanner } from '../../src/http/scan-request.ts';

export const MESSAGES = '"messages":[{"role":"user","content":"hi"}]';

/** A request with these fields beside model and messages. */
export function request(fields?: string): string {
  return `{"model":"m",${MESSAGES}${fields ? `,${fields}` : ''}}`;
}

/** Scans a body that comes in pieces, cut at these offsets. */
export function scan(body: string | Buffer, at: readonly number[] = []): ChatRequest {
  const bytes = Buffer.from(body);
  const scanner = new ChatRequestScanner();
  let from = 0;
  for (const cut of at.toSorted((a, b) => a - b)) {
    scanner.write(bytes.subarray(from, cut));
    from = Math.min(cut, bytes.length);
  }
  scanner.write(bytes.subarray(from));
  return scanner.end();
}
