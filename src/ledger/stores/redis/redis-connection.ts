import { setTimeout as pause } from 'node:timers/promises';

import { withTimeout } from '../../../async/timeout.ts';
import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import type { RedisClient } from './redis-client.ts';
import { readServerFacts, type ServerFacts } from './redis-requirements.ts';
import type { Send } from './lua/define-script.ts';

/** A single server that takes writes; its facts are undefined while it doesn't answer. */
export interface Primary {
  readonly client: RedisClient;
  readonly facts: ServerFacts | undefined;
}

/**
 * A client that is waited for no longer than a command may take, whatever the
 * client's own options are, and that throws only StoreUnavailableError.
 *
 * The server is judged by the first command, whenever a connection is made later, and once a second while it is used:
 * one that must not keep money gets no commands, and one that is another than before is counted as a loss.
 */
export class RedisConnection {
  readonly #open: () => Promise<RedisClient>;
  readonly #isOurs: boolean;
  readonly #judges: boolean;
  #client: RedisClient | undefined;
  #opening: Promise<RedisClient> | undefined;
  /** How many connections the client has lost, and how often another server was found. */
  #losses = 0;
  readonly #lossListeners: (() => void)[] = [];
  /** Of the primaries, as they were found last. */
  #identities: ReadonlySet<string> = new Set();
  #judgedAt = -Infinity;
  /** Why a client of ours has no connection. */
  #failure: unknown;
  /** The client's first connection, while commands wait for it. */
  #connecting: Promise<void> | undefined;
  #stopWaiting: (() => void) | undefined;
  #judging: Promise<void> | undefined;
  #isJudged = false;
  #fault: Error | undefined;
  #faultFoundAt = 0;
  #running = 0;
  #whenIdle: (() => void) | undefined;
  #closed = false;
  /** When the last client of ours ended, by `performance.now()`. */
  #endedAt = -Infinity;

  /**
   * @param source - a client, which stays its owner's, or how to make one, which is closed by `close`
   * @param options.judges - whether to ask what the server is before it gets a command
   */
  constructor(
    source: RedisClient | (() => Promise<RedisClient>),
    { judges = true }: { readonly judges?: boolean } = {},
  ) {
    this.#isOurs = typeof source === 'function';
    this.#open = typeof source === 'function' ? source : async () => source;
    this.#judges = judges;
    if (typeof source !== 'function') this.#use(source);
  }

  /** The listener is called as soon as the connection is lost, or another server is found: before what that one replies. */
  onLost(listener: () => void): void {
    this.#lossListeners.push(listener);
  }

  get isConnected(): boolean {
    return this.#client?.status === 'ready';
  }

  /** Commands that are each sent within this time: see `send`. */
  sender(timeoutMs: number): Send {
    return this.send.bind(this, timeoutMs);
  }

  /** Sends a command once there is a connection; resolves with the reply in time, or throws StoreUnavailableError. */
  send(timeoutMs: number, command: string, ...args: readonly string[]): Promise<unknown> {
    const call: Call = { mayBeApplied: false, refusal: undefined, isOver: false };
    return this.#inTime(this.#send(call, command, args), timeoutMs, call);
  }

  /** Resolves when every primary is there and may keep money. @throws StoreUnavailableError, or what must be changed */
  async ready(timeoutMs: number): Promise<void> {
    this.#faultFoundAt = 0;
    const primaries = await this.primaries(timeoutMs).catch((error: unknown) => {
      throw this.#fault ?? error;
    });
    const fault = primaries.find(({ facts }) => facts?.fault !== undefined)?.facts?.fault;
    if (fault !== undefined) throw new Error(fault);
    if (primaries.some(({ facts }) => !facts)) throw new StoreUnavailableError('no', because(this.#failure));
  }

  /** Asks every primary what it is, once there is a connection; in time, or throws StoreUnavailableError. */
  primaries(timeoutMs: number): Promise<readonly Primary[]> {
    const call: Call = { mayBeApplied: false, refusal: undefined, isOver: false };
    const asked = this.#becomeUsable().then(() => this.#askPrimaries());
    return this.#inTime(asked, timeoutMs, call);
  }

  /** Ends what waits for a connection, lets what was sent come to its end, and closes the client if it is ours. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopWaiting?.();
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve));
    const client = this.#isOurs ? await this.#opening?.catch(() => undefined) : this.#client;
    for (const [event, listener] of this.#listeners) client?.off(event, listener);
    if (this.#isOurs) client?.disconnect();
  }

  readonly #countLoss = (): void => {
    this.#losses += 1;
    for (const listener of this.#lossListeners) listener();
  };
  /**
   * A client of ours that has ended never connects again: the next command makes another. ioredis ends one whose
   * sentinel announces a failover while it is still being asked for the primary.
   */
  readonly #replace = (): void => {
    if (!this.#isOurs || !this.#judges || this.#closed) return;
    for (const [event, listener] of this.#listeners) this.#client?.off(event, listener);
    this.#stopWaiting?.();
    this.#client = undefined;
    this.#opening = undefined;
    this.#endedAt = performance.now();
  };
  /** Another connection may be to another server. */
  readonly #judgeAgain = (): void => {
    this.#failure = undefined;
    if (this.#isJudged) this.#judge().catch(() => {});
  };
  readonly #listeners: readonly (readonly [event: string, listener: () => void])[] = [
    ['close', this.#countLoss],
    ['-node', this.#countLoss],
    ['ready', this.#judgeAgain],
    ['+node', this.#judgeAgain],
    ['end', this.#replace],
  ];

  #use(client: RedisClient): RedisClient {
    this.#client = client;
    for (const [event, listener] of this.#listeners) client.on(event, listener);
    // Of another's client we would hide that nobody listens.
    if (this.#isOurs) client.on('error', (error: unknown) => void (this.#failure = error));
    return client;
  }

  async #send(call: Call, command: string, args: readonly string[]): Promise<unknown> {
    if (this.#isUsable()) this.#judgeNowAndThen();
    else await this.#becomeUsable();
    for (;;) {
      // What nobody waits for any more is better not begun.
      if (call.isOver || !this.#client) throw new StoreUnavailableError('no');
      const losses = this.#losses;
      call.mayBeApplied = true;
      try {
        return await this.#client.createBuiltinCommand(command).string.call(this.#client, ...args);
      } catch (error) {
        // A refusal may be the answer to a second sending, after the first one's connection was lost.
        if (!matches(REFUSALS, error) || losses !== this.#losses) throw error;
        call.mayBeApplied = false;
        call.refusal = error;
        if (!matches(PASSING_REFUSALS, error) || this.#closed) throw error;
      }
      await pause(RETRY_MS);
    }
  }

  async #inTime<T>(reply: Promise<T>, timeoutMs: number, call: Call): Promise<T> {
    this.#running += 1;
    try {
      return await withTimeout(reply, timeoutMs, () => {
        call.isOver = true;
        throw failureOf(call, because(call.refusal ?? this.#failure));
      });
    } catch (error) {
      throw error instanceof StoreUnavailableError ? error : failureOf(call, { cause: error });
    } finally {
      this.#running -= 1;
      if (this.#running === 0) this.#whenIdle?.();
    }
  }

  async #askPrimaries(): Promise<readonly Primary[]> {
    const client = this.#client;
    if (!client) return [];
    const clients = client.nodes?.('master') ?? [client];
    return Promise.all(clients.map(async (each) => ({ client: each, facts: await factsOf(each) })));
  }

  #isUsable(): boolean {
    return !this.#closed && this.isConnected && (this.#isJudged || !this.#judges) && !this.#fault;
  }

  async #becomeUsable(): Promise<void> {
    if (this.#closed) throw new StoreUnavailableError('no');
    if (this.#isUsable()) return this.#judgeNowAndThen();
    if (!this.#client && performance.now() - this.#endedAt < REOPEN_MS) {
      throw new StoreUnavailableError('no', because(this.#failure));
    }
    this.#opening ??= this.#client
      ? Promise.resolve(this.#client)
      : this.#open().then((made) => this.#use(made));
    const client = this.#client ?? (await this.#opening);
    if (client.status !== 'ready') await this.#connected(client);
    if (!this.#judges || (this.#isJudged && !this.#fault)) return;
    if (!this.#fault || Date.now() - this.#faultFoundAt > FAULT_LASTS_MS) await this.#judge();
    if (this.#fault) throw this.#fault;
  }

  /** Waits for a client's first connection; one that has lost its connection is not waited for. */
  async #connected(client: RedisClient): Promise<void> {
    if (this.#closed || !['wait', 'connecting', 'connect'].includes(client.status)) {
      throw new StoreUnavailableError('no', because(this.#failure));
    }
    this.#connecting ??= new Promise<void>((resolve, reject) => {
      const done = (): void => {
        client.off('ready', done);
        client.off('close', done);
        this.#connecting = undefined;
        this.#stopWaiting = undefined;
        if (client.status === 'ready') resolve();
        else reject(new StoreUnavailableError('no', because(this.#failure)));
      };
      this.#stopWaiting = done;
      client.on('ready', done);
      client.on('close', done);
    });
    const connecting = this.#connecting;
    // A lazy client connects with its first command, and this is it. Why it can't is for its owner's listeners.
    if (client.status === 'wait') client.connect().catch(() => {});
    await connecting;
  }

  #judgeNowAndThen(): void {
    if (!this.#judges || performance.now() - this.#judgedAt < JUDGED_FOR_MS) return;
    this.#judge().catch(() => {});
  }

  #judge(): Promise<void> {
    this.#judgedAt = performance.now();
    this.#judging ??= this.#findFault().finally(() => (this.#judging = undefined));
    return this.#judging;
  }

  /** A failover closes no connection where the primary of before goes on, or a proxy stands between. */
  #compare(answers: readonly ServerFacts[], isComplete: boolean): void {
    const identities = answers.flatMap(({ identity }) => identity ?? []);
    const before = this.#identities;
    if (before.size > 0 && identities.some((each) => !before.has(each))) this.#countLoss();
    this.#identities = new Set(isComplete ? identities : [...before, ...identities]);
  }

  /** A primary that doesn't answer keeps nobody from the others: it is judged when it is back. */
  async #findFault(): Promise<void> {
    const primaries = await this.#askPrimaries();
    const answers = primaries.flatMap(({ facts }) => facts ?? []);
    if (answers.length === 0) return;
    this.#compare(answers, answers.length === primaries.length);
    const fault = answers.find((facts) => facts.fault !== undefined)?.fault;
    this.#fault = fault === undefined ? undefined : new Error(fault);
    this.#faultFoundAt = Date.now();
    this.#isJudged = true;
  }
}

/** A command, or what else is asked of a server. */
interface Call {
  /** It was sent, and it isn't known whether it was applied. */
  mayBeApplied: boolean;
  /** Why it was refused last. */
  refusal: unknown;
  /** Nobody waits for it any more. */
  isOver: boolean;
}

/** How long a server that is used isn't asked what it is. */
const JUDGED_FOR_MS = 1000;

/** Errors of commands that were refused before they changed anything. */
const REFUSALS =
  /^(?:OOM|READONLY|LOADING|NOREPLICAS|MISCONF|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|BUSY|MOVED|ASK|NOAUTH|WRONGPASS|NOPERM|NOSCRIPT)\b|^Stream isn't writeable|^Cluster isn't ready|^Too many Cluster redirections/;

/** Refusals that may be over in a moment. */
const PASSING_REFUSALS = /^(?:LOADING|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|BUSY)\b|^Too many Cluster redirections/;
const RETRY_MS = 25;

/** For so long a server with a fault isn't asked again whether it still has it. */
const FAULT_LASTS_MS = 1000;
const INFO_MS = 1000;
/** How long after the end of a client another one is made, so that one that always ends isn't made by every command. */
const REOPEN_MS = 100;

function matches(pattern: RegExp, error: unknown): boolean {
  return error instanceof Error && pattern.test(error.message);
}

function failureOf({ mayBeApplied }: Call, options: ErrorOptions | undefined): StoreUnavailableError {
  return new StoreUnavailableError(mayBeApplied ? 'unknown' : 'no', options);
}

function because(cause: unknown): ErrorOptions | undefined {
  return cause === undefined ? undefined : { cause };
}

/** Undefined for a server that doesn't answer. One that bars us from INFO can't be judged, and is trusted. */
async function factsOf(client: RedisClient): Promise<ServerFacts | undefined> {
  const answer = client
    .createBuiltinCommand('info')
    .string.call(client)
    .then(
      (info) => readServerFacts(String(info)),
      (error: unknown) => (matches(/^NOPERM|unknown command/, error) ? readServerFacts('') : undefined),
    );
  return withTimeout(answer, INFO_MS, () => undefined);
}
