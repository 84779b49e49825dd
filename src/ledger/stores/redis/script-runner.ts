import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import { checkTimeout } from '../../engine/check-timeout.ts';
import { ReplyReader, type LuaScript, type Send } from './lua/define-script.ts';
import type { RedisConnection } from './redis-connection.ts';
import { type Durability, type DurableReply, DurableWrites } from './redis-durability.ts';
import { type RedisKeys, shardOf } from './redis-keys.ts';
import { RequestFunctions } from './request-functions.ts';

export interface ScriptRunnerOptions {
  readonly connection: RedisConnection;
  readonly keys: RedisKeys;
  /** @default Redis's own clock */
  readonly now: (() => number) | undefined;
  /** How long a command waits for Redis. */
  readonly timeoutMs: number;
  readonly durability: Durability | undefined;
}

const WHOLE_ACCOUNT_MS = 30_000;

/** Runs the scripts of a store: in time, and as durably as was asked for. */
export class ScriptRunner {
  readonly keys: RedisKeys;
  /** The time that scripts are given; empty for Redis's own. */
  readonly clock: () => string;
  /** A single command. */
  readonly send: Send;
  readonly #sendPatiently: Send;
  readonly #timeoutMs: number;
  readonly #durable: DurableWrites;
  readonly #functions: RequestFunctions;

  constructor({ connection, keys, now, timeoutMs, durability }: ScriptRunnerOptions) {
    this.keys = keys;
    this.clock = now ? () => String(now()) : () => '';
    this.send = connection.sender(timeoutMs);
    this.#sendPatiently = connection.sender(Math.max(timeoutMs, WHOLE_ACCOUNT_MS));
    this.#timeoutMs = checkTimeout(timeoutMs);
    this.#functions = new RequestFunctions(connection, timeoutMs);
    this.#durable = new DurableWrites(connection, durability);
  }

  /**
   * A script of a request is called as a function, where that is possible. Else it is sent by its hash, and whole only when
   * the server doesn't know it: a server loses its scripts when it restarts, fails over or flushes them. Nothing is defined
   * on the client.
   */
  run<Args extends readonly string[], Reply>(
    script: LuaScript<Args, Reply>,
    keys: readonly string[],
    args: Args,
    send: Send = this.send,
  ): Promise<Reply> {
    const name = this.#functions.nameOf(script);
    if (name === undefined) return runScript(script, keys, args, send);
    return send('fcall', scriptArgs(name, keys, args)).then(
      (reply) => read(script, reply),
      (error: unknown) => {
        if (!this.#functions.fallsBack(error)) throw error;
        return stepAfter(error, runScript(script, keys, args, send));
      },
    );
  }

  /** A script that reads all of an account: for a million requests, Redis alone takes a second or two. */
  runPatiently<Args extends readonly string[], Reply>(
    script: LuaScript<Args, Reply>,
    keys: readonly string[],
    args: Args,
  ): Promise<Reply> {
    return this.run(script, keys, args, this.#sendPatiently);
  }

  /** Says also whether replicas and the disk have what was written, where they can be asked. */
  runDurably<Args extends readonly string[], Reply>(
    script: LuaScript<Args, Reply>,
    keys: readonly string[],
    args: Args,
  ): Promise<DurableReply<Reply>> {
    return this.#durable.run(this.#timeoutMs, (send) => this.run(script, keys, args, send));
  }

  /** Names an account in the list of all: each time, so that a repeated call makes good one that was cut short. */
  async list(account: string): Promise<void> {
    await this.send('sadd', [this.keys.accounts(shardOf(account)), account]);
  }

  close(): Promise<void> {
    return this.#durable.close();
  }
}

/** A later step of a command whose first was made: however it fails, the command may have been applied. */
export async function afterwards<T>(step: Promise<T>): Promise<T> {
  try {
    return await step;
  } catch (error) {
    throw new StoreUnavailableError('unknown', { cause: error });
  }
}

function runScript<Args extends readonly string[], Reply>(
  script: LuaScript<Args, Reply>,
  keys: readonly string[],
  args: Args,
  send: Send,
): Promise<Reply> {
  return send('evalsha', scriptArgs(script.hash, keys, args)).then(
    (reply) => read(script, reply),
    async (error: unknown) => {
      if (!isUnknownScript(error)) throw error;
      return read(script, await stepAfter(error, send('eval', scriptArgs(script.source, keys, args))));
    },
  );
}

function scriptArgs(name: string, keys: readonly string[], args: readonly string[]): readonly string[] {
  return [name, String(keys.length)].concat(keys, args);
}

/** What is sent after a refusal, which may be the answer to a second sending: then the first may have been applied. */
function stepAfter<T>(refusal: unknown, step: Promise<T>): Promise<T> {
  return refusal instanceof StoreUnavailableError && refusal.applied === 'unknown' ? afterwards(step) : step;
}

function read<Args extends readonly string[], Reply>(script: LuaScript<Args, Reply>, reply: unknown): Reply {
  try {
    return script.read(new ReplyReader(reply));
  } catch (error) {
    throw new StoreUnavailableError('unknown', { cause: error });
  }
}

function isUnknownScript(error: unknown): error is StoreUnavailableError {
  if (!(error instanceof StoreUnavailableError)) return false;
  return error.cause instanceof Error && error.cause.message.startsWith('NOSCRIPT');
}
