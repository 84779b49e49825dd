import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

import { type ChatCompletionsRouter, createChatCompletionsRouter, type Settled } from '../../src/index.ts';
import { type AnyGateway, clientsOf, PROVIDER_KEY } from './gateway.ts';
import { answerJson, completionBody, type Provider } from './provider.ts';

/** The parts of a router that a test uses beside its address. */
type Ledger = Pick<ChatCompletionsRouter, 'keys' | 'credits'>;

/** A process of `test/e2e/runtimes/app.mjs`, as it is or bundled. */
export interface RuntimeProcess {
  /** A gateway of it for its account, or one that is new; ending one leaves the process as it is. */
  gateway(): Promise<AnyGateway>;
  /** Ends it, and waits until it has ended; gives what it printed on stderr. */
  stop(): Promise<string>;
}

export interface App {
  /** What is run, and its arguments, e.g. `['node', 'app.mjs', 'node:http']`. */
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  /** As the option `store` wants it. */
  readonly store: string;
  readonly provider: Provider;
  /** @default a new one for each gateway */
  readonly account?: string;
}

export async function startRuntime({
  command,
  cwd,
  store,
  provider,
  account: own,
}: App): Promise<RuntimeProcess> {
  const [program, ...args] = command;
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, CREDITS_STORE: store, PROVIDER_URL: provider.baseURL, PROVIDER_KEY };
  const child = spawn(program, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
  const said = new Said(child);
  const origin = await said.listening;
  // Another user of the same credits, save where they are in the memory of that process.
  const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  const ledger = store === 'memory:' ? said.ledger() : router;
  let accounts = 0;
  return {
    gateway: async () => {
      const account = own ?? `acct-${++accounts}`;
      const { key } = await ledger.keys.create({ account, name: 'test' });
      await ledger.credits.grant(account, '5.00', { id: 'welcome' });
      provider.received.length = 0;
      provider.script = answerJson(completionBody());
      return {
        provider,
        router: { ...router, ...ledger } as ChatCompletionsRouter,
        account,
        ...clientsOf(`${origin}/v1`, key),
        nextSettled: () => said.nextSettled(account),
        close: async () => {},
      };
    },
    stop: async () => {
      await router.close();
      return said.end();
    },
  };
}

/** What is said between the app and the test, in lines of its output and its input. */
class Said {
  readonly listening: Promise<string>;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #lines = new EventEmitter().setMaxListeners(0);
  readonly #exited: Promise<unknown>;
  #complaints = '';
  #calls = 0;

  constructor(child: ChildProcessByStdio<Writable, Readable, Readable>) {
    this.#child = child;
    this.#exited = once(child, 'close');
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (this.#complaints += chunk));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const [, name = '', about = ''] = /^(\w+) (.*)$/.exec(line) ?? [];
      if (name) this.#lines.emit(name, JSON.parse(about));
      else this.#complaints += `${line}\n`;
    });
    this.listening = Promise.race([
      this.#next('listening', (origin): origin is string => typeof origin === 'string'),
      this.#exited.then(() => {
        throw new Error(`The app ended:\n${this.#complaints}`);
      }),
    ]);
  }

  nextSettled(account: string): Promise<Settled> {
    return this.#next('settled', (about): about is Settled => (about as Settled).account === account);
  }

  /** Functions of the router in that process, called there. */
  ledger(): Ledger {
    const part = (name: 'keys' | 'credits'): unknown =>
      new Proxy(
        {},
        {
          get:
            (_, method) =>
            (...args: unknown[]) =>
              this.#call(name, String(method), args),
        },
      );
    return { keys: part('keys'), credits: part('credits') } as Ledger;
  }

  async end(): Promise<string> {
    this.#child.stdin.end();
    await this.#exited;
    return this.#complaints;
  }

  async #call(part: string, name: string, args: readonly unknown[]): Promise<unknown> {
    const id = ++this.#calls;
    interface Called {
      readonly id: number;
      readonly result?: unknown;
      readonly error?: string;
    }
    const called = this.#next('called', (about): about is Called => (about as Called).id === id);
    this.#child.stdin.write(`${JSON.stringify({ id, part, name, args })}\n`);
    const { result, error } = await called;
    if (error !== undefined) throw new Error(error);
    return result;
  }

  #next<T>(name: string, isWanted: (about: unknown) => about is T): Promise<T> {
    return new Promise((resolve) => {
      const listener = (about: unknown): void => {
        if (!isWanted(about)) return;
        this.#lines.off(name, listener);
        resolve(about);
      };
      this.#lines.on(name, listener);
    });
  }
}
