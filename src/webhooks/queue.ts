import { backoff } from '../async/backoff.ts';
import { nextTurn } from '../async/slices.ts';
import { withTimeout } from '../async/timeout.ts';
import type { OutboxFiles } from '../ledger/reliability/outbox-files.ts';
import { Outbox } from '../ledger/reliability/outbox.ts';
import { guard } from '../observability/hook-runner.ts';
import { asError } from '../platform/as-error.ts';
import { signedHeaders } from './signature.ts';

export interface WebhookQueueOptions {
  readonly url: URL;
  readonly keys: readonly Buffer[];
  readonly timeoutMs: number;
  /** Where messages are kept until they are delivered; without it they are in memory alone. */
  readonly files: OutboxFiles | undefined;
  readonly onError: (error: Error) => void;
}

/** An event as it is sent. */
export interface WebhookMessage {
  /** The same each time that it is sent: receivers recognise a repetition by it. */
  readonly id: string;
  readonly account: string;
  /** JSON. */
  readonly body: string;
  /** In ms since the epoch. */
  readonly createdAt: number;
}

/** A message as the folder keeps it. */
interface KeptMessage {
  readonly type: 'webhook';
  readonly command: Omit<WebhookMessage, 'id'> & { readonly requestId: string };
}

/** While as many wait, new ones are dropped. Those of processes that are gone count, and are never dropped. */
const MAX_WAITING = 10_000;
/** No event of this library is as long. */
const MAX_BODY_BYTES = 65_536;
const MAX_IN_FLIGHT = 4;
/** Pauses after an endpoint has failed, doubled while it fails. */
const FIRST_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 300_000;
/** Until a message that was refused itself is sent again, doubled while it is refused. */
const FIRST_REFUSED_MS = 1000;
const MAX_REFUSED_MS = 3_600_000;
/** Of the client errors those that say nothing of the message: the endpoint is gone, or busy, or takes none. */
const OF_ENDPOINT: readonly number[] = [401, 403, 404, 408, 410, 425, 429];
/** A message that is older is given up when the endpoint fails, or refuses it. */
const MAX_AGE_MS = 3 * 24 * 60 * 60 * 1000;

/**
 * Posts messages to a URL, in their order where the endpoint takes them.
 *
 * A message that fails goes to the end of the queue, and all wait for a pause that grows while the endpoint fails. One that
 * the endpoint refuses waits alone. A redirect is a failure: it could lead into the operator's own network. The folder is
 * that of the ledger's outbox.
 */
export class WebhookQueue {
  readonly #options: WebhookQueueOptions;
  /** That of the host: what it throws or rejects with is logged. */
  readonly #onError: (error: Error) => void;
  readonly #outbox: Outbox<KeptMessage> | undefined;
  readonly #closing = new AbortController();
  readonly #sending = new Set<Promise<void>>();
  readonly #queue: WebhookMessage[] = [];
  /** How often each message that waits was refused, by id. */
  readonly #refusals = new Map<string, number>();
  /** Of refused messages until they are in the queue again. */
  readonly #refused = new Set<NodeJS.Timeout>();
  #failures = 0;
  #pause: NodeJS.Timeout | undefined;
  #isOpen = false;
  #isFull = false;

  constructor(options: WebhookQueueOptions) {
    this.#options = options;
    const { files, onError } = options;
    this.#onError = (error) => {
      guard(() => onError(error));
    };
    this.#outbox =
      files &&
      new Outbox<KeptMessage>({
        files,
        now: Date.now,
        tell: (event) => {
          this.#onError(new Error(`The folder of the webhooks: ${JSON.stringify(event)}`));
        },
      });
  }

  get waiting(): number {
    return this.#queue.length + this.#sending.size + this.#refused.size;
  }

  /** Messages of processes that are gone are sent from now on. */
  open(): void {
    if (this.#isOpen || this.#closing.signal.aborted) return;
    this.#isOpen = true;
    this.#outbox?.open(({ command: { requestId: id, account, body, createdAt } }) => {
      this.#queue.push({ id, account, body, createdAt });
      this.#pump();
    });
  }

  add(message: WebhookMessage): void {
    if (this.#closing.signal.aborted) return;
    this.open();
    const bytes = Buffer.byteLength(message.body);
    if (bytes > MAX_BODY_BYTES) {
      this.#onError(new Error(`A webhook of ${bytes} bytes is dropped: at most ${MAX_BODY_BYTES} are sent`));
      return;
    }
    if (this.waiting >= MAX_WAITING) {
      if (!this.#isFull) {
        this.#onError(new Error(`Webhooks are dropped: ${this.waiting} wait to be delivered`));
      }
      this.#isFull = true;
      return;
    }
    this.#isFull = false;
    this.#outbox?.append(kept(message));
    this.#queue.push(message);
    this.#pump();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#pause);
    for (const timer of this.#refused) clearTimeout(timer);
    await Promise.all(this.#sending);
    await this.#outbox?.close();
  }

  #pump(): void {
    // An endpoint that failed is asked with one message first.
    const most = this.#failures > 0 ? 1 : MAX_IN_FLIGHT;
    while (!this.#pause && this.#sending.size < most && !this.#closing.signal.aborted) {
      const message = this.#queue.shift();
      if (!message) return;
      const sending = this.#deliver(message).finally(() => {
        this.#sending.delete(sending);
        this.#pump();
      });
      this.#sending.add(sending);
    }
  }

  async #deliver(message: WebhookMessage): Promise<void> {
    try {
      const status = await this.#post(message);
      this.#failures = 0;
      if (status > 299) {
        if (isOld(message)) this.#giveUp(message, new Error(`status ${status}`));
        else this.#setAside(message);
        return;
      }
      this.#refusals.delete(message.id);
      this.#outbox?.done(message.id);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      this.#queue.push(message);
      this.#wait();
      await this.#giveUpOld(asError(error));
    }
  }

  /** Sent again after a pause of its own. */
  #setAside(message: WebhookMessage): void {
    const refusals = this.#refusals.get(message.id) ?? 0;
    this.#refusals.set(message.id, Math.min(refusals + 1, 30));
    const pauseMs = backoff(refusals, { firstMs: FIRST_REFUSED_MS, maxMs: MAX_REFUSED_MS });
    const timer = setTimeout(() => {
      this.#refused.delete(timer);
      this.#queue.push(message);
      this.#pump();
    }, pauseMs).unref();
    this.#refused.add(timer);
  }

  /**
   * @returns the status: a 2xx if it was taken, a 4xx if the endpoint takes messages, but not this one
   * @throws {Error} that says why the endpoint has failed
   */
  async #post({ id, body }: WebhookMessage): Promise<number> {
    const { url, keys, timeoutMs } = this.#options;
    const ended = new AbortController();
    const abort = (): void => {
      ended.abort();
    };
    this.#closing.signal.addEventListener('abort', abort);
    try {
      const headers = {
        'content-type': 'application/json',
        'user-agent': 'chat-completions-router',
        ...signedHeaders(keys, { id, body, sentAt: Date.now() }),
      };
      const init = { method: 'POST', body, headers, redirect: 'manual', signal: ended.signal } as const;
      const { status } = await withTimeout(answerOf(fetch(url, init)), timeoutMs, () => {
        throw new Error(`no answer within ${timeoutMs} ms`);
      });
      const isTaken = status >= 200 && status <= 299;
      const isRefused = status >= 400 && status <= 499 && !OF_ENDPOINT.includes(status);
      if (isTaken || isRefused) return status;
      throw new Error(`status ${status}`);
    } finally {
      this.#closing.signal.removeEventListener('abort', abort);
      abort();
    }
  }

  /** Gives up all that are too old, not only the one that failed: while the endpoint fails, one is sent after each pause. */
  async #giveUpOld(reason: Error): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const index = this.#queue.findIndex(isOld);
      const [message] = index === -1 ? [] : this.#queue.splice(index, 1);
      if (!message) return;
      this.#giveUp(message, reason);
      // A dead letter is synced to the disk: one in each turn of the event loop.
      await nextTurn();
    }
  }

  #giveUp(message: WebhookMessage, reason: Error): void {
    this.#refusals.delete(message.id);
    this.#outbox?.giveUp(kept(message), reason.message);
    this.#onError(new Error(`Webhook ${message.id} is given up: ${reason.message}`));
  }

  #wait(): void {
    // Others that were on their way when the first failed: it is one failure.
    if (this.#pause) return;
    const pauseMs = backoff(this.#failures, { firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS });
    this.#failures = Math.min(this.#failures + 1, 30);
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      this.#pump();
    }, pauseMs).unref();
  }
}

function isOld({ createdAt }: WebhookMessage): boolean {
  return createdAt < Date.now() - MAX_AGE_MS;
}

/** The head of a response; its body is not read. */
async function answerOf(fetching: Promise<Response>): Promise<Response> {
  const response = await fetching;
  await response.body?.cancel();
  return response;
}

function kept({ id, ...message }: WebhookMessage): KeptMessage {
  return { type: 'webhook', command: { ...message, requestId: id } };
}
