import { withTimeout } from '../../../async/timeout.ts';
import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import { because, type Call, Calls } from './redis-calls.ts';
import type { RedisClient } from './redis-client.ts';
import { readServerFacts, type ServerFacts } from './redis-requirements.ts';
import { TurnWrites } from './turn-writes.ts';
import { Waits } from './waits.ts';
import type { Send } from './lua/define-script.ts';

/** A server that accepts writes; `facts` is undefined while it doesn't answer. */
export interface Primary {
  readonly client: RedisClient;
  readonly facts: ServerFacts | undefined;
}

/**
 * A client with a timeout for every command, independent of the client's own
 * options, that throws only StoreUnavailableError.
 *
 * The server is checked (judged) by the first command, after each reconnect, and once a second while in use. A server that
 * is unfit to store money gets no commands, and a different server than before counts as a lost connection.
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
  /** Identities of the primaries at the last check. */
  #identities: ReadonlySet<string> = new Set();
  #judgedAt = -Infinity;
  /** The client's first connection, while commands wait for it. */
  #connecting: Promise<void> | undefined;
  #stopWaiting: (() => void) | undefined;
  #judging: Promise<void> | undefined;
  #isJudged = false;
  #fault: Error | undefined;
  /** By `performance.now()`. */
  #faultFoundAt = -Infinity;
  readonly #calls = new Calls();
  readonly #turn = new TurnWrites();
  #closed = false;
  /** When our last own client ended, by `performance.now()`. */
  #endedAt = -Infinity;

  /**
   * @param source - a client, which its owner closes, or a factory, whose client `close` closes
   * @param options.judges - whether to check the server before it gets a command
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

  /**
   * Sends commands, each once there is a connection; resolves with the reply in time, or throws StoreUnavailableError.
   *
   * The commands of one turn of the event loop leave in one write.
   */
  sender(timeoutMs: number): Send {
    const waits = new Waits(timeoutMs);
    return (command, args) =>
      this.#calls.run(waits, (call) => {
        if (this.#isUsable()) {
          this.#judgeNowAndThen();
          this.#send(call, command, args);
        } else {
          this.#becomeUsable()
            .then(() => this.#send(call, command, args))
            .catch((error: unknown) => call.fail(error));
        }
      });
  }

  /** Resolves when every primary is there and may keep money. @throws StoreUnavailableError, or what must be changed */
  async ready(timeoutMs: number): Promise<void> {
    this.#faultFoundAt = -Infinity;
    const primaries = await this.primaries(timeoutMs).catch((error: unknown) => {
      throw this.#fault ?? error;
    });
    const fault = primaries.find(({ facts }) => facts?.fault !== undefined)?.facts?.fault;
    if (fault !== undefined) throw new Error(fault);
    if (primaries.some(({ facts }) => !facts))
      throw new StoreUnavailableError('no', because(this.#calls.failure));
  }

  /** Asks every primary what it is, once there is a connection; in time, or throws StoreUnavailableError. */
  primaries(timeoutMs: number): Promise<readonly Primary[]> {
    return this.#calls.run(new Waits(timeoutMs), (call) => {
      this.#becomeUsable()
        .then(() => this.#askPrimaries())
        .then((primaries) => call.succeed(primaries))
        .catch((error: unknown) => call.fail(error));
    });
  }

  /** Sends a command without keys to every primary; resolves when each has carried it out, now or before. */
  tellPrimaries(timeoutMs: number, command: string, ...args: readonly string[]): Promise<void> {
    return this.#calls.run(new Waits(timeoutMs), (call) => {
      call.mayBeApplied = true;
      Promise.all(
        this.#primaryClients().map(async (client) => {
          await client
            .createBuiltinCommand(command)
            .string.call(client, ...args)
            .catch((error: unknown) => {
              if (!matches(/already exists/, error)) throw error;
            });
        }),
      ).then(
        () => call.succeed(),
        (error: unknown) => call.fail(error),
      );
    });
  }

  /** Fails commands that wait for a connection, awaits those that were sent, and closes the client if it is our own. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopWaiting?.();
    await this.#calls.idle();
    const client = this.#isOurs ? await this.#opening?.catch(() => undefined) : this.#client;
    for (const [event, listener] of this.#listeners) client?.off(event, listener);
    if (this.#isOurs) client?.disconnect();
  }

  readonly #countLoss = (): void => {
    this.#losses += 1;
    for (const listener of this.#lossListeners) listener();
  };
  /**
   * A client of our own that has ended never reconnects, so the next command creates another. ioredis ends a client whose
   * sentinel announces a failover while the client still queries it for the primary.
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
    this.#calls.failure = undefined;
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
    // Not on the app's client: our listener would hide that it has no error listener.
    if (this.#isOurs) client.on('error', (error: unknown) => void (this.#calls.failure = error));
    return client;
  }

  #send(call: Call<unknown>, command: string, args: readonly string[]): void {
    // A call whose caller has given up is not started.
    if (call.isOver) return;
    if (!this.#client) return call.fail(new StoreUnavailableError('no'));
    const losses = this.#losses;
    call.mayBeApplied = true;
    const onRefusal = (error: unknown): void => {
      // A refusal may be the answer to a second sending, after the first one's connection was lost.
      if (!matches(REFUSALS, error) || losses !== this.#losses) return call.fail(error);
      call.mayBeApplied = false;
      call.refusal = error;
      if (!matches(PASSING_REFUSALS, error) || this.#closed) return call.fail(error);
      setTimeout(() => this.#send(call, command, args), RETRY_MS);
    };
    try {
      this.#turn.gather(this.#client);
      const reply = this.#client.createBuiltinCommand(command).string.call(this.#client, ...args);
      reply.then((value) => call.succeed(value), onRefusal);
    } catch (error) {
      call.fail(error);
    }
  }

  async #askPrimaries(): Promise<readonly Primary[]> {
    const clients = this.#primaryClients();
    return Promise.all(clients.map(async (each) => ({ client: each, facts: await factsOf(each) })));
  }

  #primaryClients(): readonly RedisClient[] {
    return this.#client?.nodes?.('master') ?? (this.#client ? [this.#client] : []);
  }

  #isUsable(): boolean {
    return !this.#closed && this.isConnected && (this.#isJudged || !this.#judges) && !this.#fault;
  }

  async #becomeUsable(): Promise<void> {
    if (this.#closed) throw new StoreUnavailableError('no');
    if (this.#isUsable()) return this.#judgeNowAndThen();
    if (!this.#client && performance.now() - this.#endedAt < REOPEN_MS) {
      throw new StoreUnavailableError('no', because(this.#calls.failure));
    }
    this.#opening ??= this.#client
      ? Promise.resolve(this.#client)
      : this.#open().then((made) => this.#use(made));
    const client = this.#client ?? (await this.#opening);
    if (client.status !== 'ready') await this.#connected(client);
    if (!this.#judges || (this.#isJudged && !this.#fault)) return;
    if (!this.#fault || performance.now() - this.#faultFoundAt > FAULT_LASTS_MS) await this.#judge();
    if (this.#fault) throw this.#fault;
  }

  /** Waits for a client's first connection, but not for a reconnect. */
  async #connected(client: RedisClient): Promise<void> {
    if (this.#closed || !['wait', 'connecting', 'connect'].includes(client.status)) {
      throw new StoreUnavailableError('no', because(this.#calls.failure));
    }
    this.#connecting ??= new Promise<void>((resolve, reject) => {
      const done = (): void => {
        client.off('ready', done);
        client.off('close', done);
        this.#connecting = undefined;
        this.#stopWaiting = undefined;
        if (client.status === 'ready') resolve();
        else reject(new StoreUnavailableError('no', because(this.#calls.failure)));
      };
      this.#stopWaiting = done;
      client.on('ready', done);
      client.on('close', done);
    });
    const connecting = this.#connecting;
    // A lazy client connects with its first command, which is this one. Its owner's listeners get the error.
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

  /** Detects a failover that closed no connection, because the old primary lives on or there is a proxy in between. */
  #compare(answers: readonly ServerFacts[], isComplete: boolean): void {
    const identities = answers.flatMap(({ identity }) => identity ?? []);
    const before = this.#identities;
    if (before.size > 0 && identities.some((each) => !before.has(each))) this.#countLoss();
    this.#identities = new Set(isComplete ? identities : [...before, ...identities]);
  }

  /** A primary that doesn't answer doesn't block the others: it is checked when it is back. */
  async #findFault(): Promise<void> {
    const primaries = await this.#askPrimaries();
    const answers = primaries.flatMap(({ facts }) => facts ?? []);
    if (answers.length === 0) return;
    this.#compare(answers, answers.length === primaries.length);
    const fault = answers.find((facts) => facts.fault !== undefined)?.fault;
    this.#fault = fault === undefined ? undefined : new Error(fault);
    this.#faultFoundAt = performance.now();
    this.#isJudged = true;
  }
}

/** How long a successful server check is cached, while the server is in use. */
const JUDGED_FOR_MS = 1000;

/** Errors of commands that were refused before they changed anything. */
const REFUSALS =
  /^(?:OOM|READONLY|LOADING|NOREPLICAS|MISCONF|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|BUSY|MOVED|ASK|NOAUTH|WRONGPASS|NOPERM|NOSCRIPT)\b|^ERR Function not found|^ERR unknown command|^Stream isn't writeable|^Cluster isn't ready|^Too many Cluster redirections/;

/** Transient refusals, which are retried. */
const PASSING_REFUSALS = /^(?:LOADING|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|BUSY)\b|^Too many Cluster redirections/;
const RETRY_MS = 25;

/** How long a failed server check is cached. */
const FAULT_LASTS_MS = 1000;
const INFO_MS = 1000;
/** Minimum time between two clients of our own, so that not every command creates one that ends at once. */
const REOPEN_MS = 100;

function matches(pattern: RegExp, error: unknown): boolean {
  return error instanceof Error && pattern.test(error.message);
}

/** Undefined if the server doesn't answer. A server that forbids INFO can't be checked, and is trusted. */
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
