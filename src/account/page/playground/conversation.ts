import { type Api, ApiError } from '../../../page/api.ts';
import type { Holder } from '../../../client/admin-api.generated.ts';
import { type ChatRequest, chatRequest, type Message, type Settings } from './chat-request.ts';
import { eventData } from './event-stream.ts';
import { type Failure, failureOf } from './failure.ts';
import { PlaygroundKey } from './playground-key.ts';

export interface Answer {
  readonly state: 'waiting' | 'streaming' | 'done' | 'stopped' | 'failed';
  readonly text: string;
  /** The model has said that it was all. */
  readonly isComplete?: boolean;
  readonly failure?: Failure;
  /** The x-request-id of the response. */
  readonly requestId?: string;
  readonly tokens?: { readonly prompt: number; readonly completion: number };
  /** USD, as a decimal string; undefined until it is posted. */
  readonly charged?: string;
}

export interface Turn {
  readonly id: number;
  readonly question: string;
  readonly answer: Answer;
}

/** How often a charge is asked for that is not posted yet; each time the API waits up to a second for it. */
const CHARGE_TRIES = 5;

/** The playground's chat: its settings, what was asked and answered, and the request that runs. */
export class Conversation {
  settings: Settings = { model: '', system: '', temperature: '', maxTokens: '' };
  readonly #api: Api;
  readonly #key: PlaygroundKey;
  readonly #listeners = new Set<() => void>();
  #turns: readonly Turn[] = [];
  #running: AbortController | undefined;
  #lastId = 0;

  constructor(api: Api) {
    this.#api = api;
    this.#key = new PlaygroundKey(api);
  }

  get turns(): readonly Turn[] {
    return this.#turns;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** @returns a function that ends the subscription */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  change(settings: Partial<Settings>): void {
    this.settings = { ...this.settings, ...settings };
    this.#tell();
  }

  stop(): void {
    this.#running?.abort();
  }

  clear(): void {
    this.stop();
    this.#turns = [];
    this.#tell();
  }

  /** The request that a draft would be; without one, the last request as it would be now. */
  requestOf(draft: string): ChatRequest {
    const last = this.#turns.at(-1);
    if (draft === '' && last) return this.#requestAfter(this.#turns.slice(0, -1), last.question);
    return this.#requestAfter(this.#turns, draft || 'Hello!');
  }

  /** A question after what was answered. */
  #requestAfter(turns: readonly Turn[], question: string): ChatRequest {
    const messages = turns.flatMap(({ question: asked, answer }): Message[] =>
      answer.text === ''
        ? []
        : [
            { role: 'user', content: asked },
            { role: 'assistant', content: answer.text },
          ],
    );
    return chatRequest(this.settings, [...messages, { role: 'user', content: question }]);
  }

  /** Asks again what failed last. */
  async retry(me: Holder): Promise<void> {
    const last = this.#turns.at(-1);
    if (!last || this.isRunning) return;
    this.#turns = this.#turns.slice(0, -1);
    await this.ask(me, last.question);
  }

  async ask(me: Holder, question: string): Promise<void> {
    if (this.isRunning) return;
    const request = this.requestOf(question);
    const running = new AbortController();
    this.#running = running;
    const id = ++this.#lastId;
    this.#turns = [...this.#turns, { id, question, answer: { state: 'waiting', text: '' } }];
    this.#tell();
    try {
      await this.#read(id, me, request, running.signal);
    } catch (thrown) {
      if (running.signal.aborted) this.#update(id, { state: 'stopped' });
      else this.#update(id, { state: 'failed', failure: failureIn(thrown) });
    }
    this.#running = undefined;
    this.#tell();
    await this.#readCharge(id, me);
  }

  async #read(id: number, me: Holder, request: ChatRequest, signal: AbortSignal): Promise<void> {
    const response = await this.#send(me, request, signal);
    const requestId = response.headers.get('x-request-id');
    if (requestId !== null) this.#update(id, { requestId });
    if (!response.ok || !response.body) {
      const failure = failureOf(response.status, await response.text());
      this.#update(id, { state: 'failed', failure });
      return;
    }
    for await (const data of eventData(response.body)) {
      if (data === '[DONE]') {
        this.#update(id, { state: 'done' });
        return;
      }
      if (!this.#readEvent(id, data)) return;
    }
    // Some providers end a stream without `[DONE]`.
    if (this.#turns.find((turn) => turn.id === id)?.answer.isComplete) this.#update(id, { state: 'done' });
    else this.#update(id, { state: 'failed', failure: failureOf(200, '') });
  }

  /** @returns whether the answer goes on */
  #readEvent(id: number, data: string): boolean {
    const event: StreamEvent = JSON.parse(data);
    if (event.error) {
      this.#update(id, { state: 'failed', failure: failureOf(200, data) });
      return false;
    }
    const { usage, choices } = event;
    if (usage) {
      this.#update(id, { tokens: { prompt: usage.prompt_tokens, completion: usage.completion_tokens } });
    }
    const [choice] = choices ?? [];
    if (choice?.finish_reason) this.#update(id, { isComplete: true });
    const text = choice?.delta?.content;
    if (typeof text === 'string' && text !== '') this.#append(id, text);
    return true;
  }

  /** Once more with another key, where that of the host's session has ended. */
  async #send(me: Holder, request: ChatRequest, signal: AbortSignal): Promise<Response> {
    const isHost = me.signed_in_by === 'host';
    const send = async (): Promise<Response> =>
      fetch(this.#api.urlOf(`${me.api}/chat/completions`), {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(await this.#key.authorization(isHost)) },
        body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
        credentials: 'omit',
        redirect: 'error',
        signal,
      });
    const response = await send();
    if (response.ok || !isHost) return response;
    return this.#key.replace(response.status, await response.clone().text()) ? send() : response;
  }

  async #readCharge(id: number, me: Holder): Promise<void> {
    const requestId = this.#turns.find((turn) => turn.id === id)?.answer.requestId;
    if (requestId === undefined) return;
    const url = this.#api.urlOf(`${me.api}/generation?${new URLSearchParams({ id: requestId }).toString()}`);
    for (let tries = 0; tries < CHARGE_TRIES; tries++) {
      const generation = await this.#generation(url, me);
      if (generation?.charged !== undefined) {
        this.#update(id, { charged: generation.charged });
        return;
      }
    }
  }

  /** Undefined while it isn't posted, or the server does not answer. */
  async #generation(url: string, me: Holder): Promise<{ readonly charged?: string } | undefined> {
    try {
      const headers = await this.#key.authorization(me.signed_in_by === 'host');
      const response = await fetch(url, { headers, credentials: 'omit', cache: 'no-store' });
      if (!response.ok) return undefined;
      const { data }: { data: { charged?: string } } = await response.json();
      return data;
    } catch {
      return undefined;
    }
  }

  #append(id: number, text: string): void {
    const turn = this.#turns.find((each) => each.id === id);
    if (turn) this.#update(id, { state: 'streaming', text: turn.answer.text + text });
  }

  #update(id: number, changed: Partial<Answer>): void {
    this.#turns = this.#turns.map((turn) =>
      turn.id === id ? { ...turn, answer: { ...turn.answer, ...changed } } : turn,
    );
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

interface StreamEvent {
  readonly error?: unknown;
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
  readonly choices?: readonly {
    readonly delta?: { readonly content?: unknown };
    readonly finish_reason?: string | null;
  }[];
}

function failureIn(thrown: unknown): Failure {
  if (!(thrown instanceof ApiError)) return failureOf(0, '');
  return { ...failureOf(thrown.status, ''), detail: thrown.message };
}
