import type { ClientResponse, ResponseHeaders } from './exchange.ts';

/** A response that also passes each byte of its body to a recorder. */
export class ResponseRecorder implements ClientResponse {
  readonly #response: ClientResponse;
  readonly #record: { add(bytes: Uint8Array): void };

  constructor(response: ClientResponse, record: { add(bytes: Uint8Array): void }) {
    this.#response = response;
    this.#record = record;
  }

  get headersSent(): boolean {
    return this.#response.headersSent;
  }

  get statusCode(): number {
    return this.#response.statusCode;
  }

  get writableEnded(): boolean {
    return this.#response.writableEnded;
  }

  get destroyed(): boolean {
    return this.#response.destroyed;
  }

  getHeader(name: string): ReturnType<NonNullable<ClientResponse['getHeader']>> {
    return this.#response.getHeader?.(name);
  }

  writeHead(status: number, headers: ResponseHeaders): void {
    this.#response.writeHead(status, headers);
  }

  flushHeaders(): void {
    this.#response.flushHeaders();
  }

  write(chunk: Uint8Array): boolean {
    const mayGoOn = this.#response.write(chunk);
    this.#record.add(chunk);
    return mayGoOn;
  }

  end(chunk?: Uint8Array): void {
    this.#response.end(chunk);
    if (chunk) this.#record.add(chunk);
  }

  destroy(): void {
    this.#response.destroy();
  }

  on(event: 'close' | 'drain', listener: () => void): void {
    this.#response.on(event, listener);
  }

  off(event: 'close' | 'drain', listener: () => void): void {
    this.#response.off(event, listener);
  }
}
