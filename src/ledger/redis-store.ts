import {
  checkAccount,
  checkAdjust,
  checkAdmit,
  checkCreateKey,
  checkExtend,
  checkGrant,
  checkKey,
  checkSettle,
  checkVoid,
} from './arguments.ts';
import {
  type AccountState,
  type Adjust,
  type AdjustResult,
  type Admit,
  type AdmitResult,
  type Balance,
  type CreateKey,
  type CreateKeyResult,
  type Extend,
  type ExtendResult,
  type Grant,
  type GrantResult,
  type JournalLine,
  type KeyRecord,
  type LedgerStore,
  type Settle,
  type SettleResult,
  StoreUnavailable,
  type Void,
  type VoidResult,
} from './ledger.ts';
import { ACCOUNT_KEYS } from './scripts/account-lua.ts';
import { adjust } from './scripts/adjust.ts';
import { admit } from './scripts/admit.ts';
import { balance } from './scripts/balance.ts';
import { createKey } from './scripts/create-key.ts';
import { ReplyReader, type Script, type Send } from './scripts/define-script.ts';
import { extend } from './scripts/extend.ts';
import { freeze } from './scripts/freeze.ts';
import { grant } from './scripts/grant.ts';
import { adjustDetails, journal, settleDetails } from './scripts/journal.ts';
import { keyHash, keyIds, keyRecord, keyTerms } from './scripts/key-fields.ts';
import { readKey } from './scripts/read-key.ts';
import { readKeys } from './scripts/read-keys.ts';
import { readPointer } from './scripts/read-pointer.ts';
import { revokeKey } from './scripts/revoke-key.ts';
import { settle } from './scripts/settle.ts';
import { snapshot } from './scripts/snapshot.ts';
import { sweep } from './scripts/sweep.ts';
import { trim } from './scripts/trim.ts';
import { release } from './scripts/void.ts';
import { writePointer } from './scripts/write-pointer.ts';

/** What is used of a client: any `Redis` or `Cluster` of ioredis 5 or 6 has it. */
export interface RedisClient {
  readonly status: string;
  readonly options: { readonly keyPrefix?: string | undefined };
  connect(): Promise<unknown>;
  on(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
  /** The command as a function that is never pipelined, to be called on the client. */
  createBuiltinCommand(name: string): {
    readonly string: (this: RedisClient, ...args: string[]) => Promise<unknown>;
  };
}

export interface RedisStoreOptions {
  /** Stays its owner's: nothing of it is changed, and it is not closed. */
  readonly client: RedisClient;
  /**
   * Put before every key, as by the client's own `keyPrefix`, which is also kept. Without braces.
   *
   * @default ''
   */
  readonly keyPrefix?: string;
  /**
   * The store's clock, in ms.
   *
   * @default Redis's own, which all machines share
   */
  readonly now?: () => number;
  /**
   * How long `admit` waits for Redis, in ms.
   *
   * @default 250
   */
  readonly admitTimeoutMs?: number;
  /**
   * How long every other command waits for Redis, in ms.
   *
   * @default 2000
   */
  readonly timeoutMs?: number;
}

/**
 * A ledger in Redis 7.0 or later, or Valkey, that many machines share.
 *
 * An account lives in one slot, and each command is one script there: the
 * transitions of account.ts and lots.ts in Lua, exact to the nano-dollar.
 * Waits are bounded by timers of the store's own, whatever the client's options
 * are. A command that was given up may still be applied, once: repeat it.
 */
export class RedisStore implements LedgerStore {
  readonly #client: RedisClient;
  readonly #prefix: string;
  readonly #clock: () => string;
  readonly #admitTimeoutMs: number;
  readonly #timeoutMs: number;
  /** How many connections the client has lost: it may send again what was sent on one of those. */
  #losses = 0;
  readonly #countLoss = (): void => void (this.#losses += 1);
  /** The client's first connection, while commands wait for it. */
  #connecting: Promise<void> | undefined;
  #stopWaiting: (() => void) | undefined;
  #closed = false;

  constructor(clientOrOptions: RedisClient | RedisStoreOptions) {
    // A client has a `client` too: the command of that name.
    const options = 'createBuiltinCommand' in clientOrOptions ? { client: clientOrOptions } : clientOrOptions;
    const { client, keyPrefix = '', now, admitTimeoutMs = 250, timeoutMs = 2000 } = options;
    for (const prefix of [keyPrefix, client.options.keyPrefix ?? '']) {
      if (/[{}]/.test(prefix)) {
        throw new TypeError(`keyPrefix must have no braces, got ${JSON.stringify(prefix)}`);
      }
    }
    this.#client = client;
    this.#prefix = `${keyPrefix}ccr:`;
    this.#clock = now ? () => String(now()) : () => '';
    this.#admitTimeoutMs = admitTimeoutMs;
    this.#timeoutMs = timeoutMs;
    for (const event of LOSSES) client.on(event, this.#countLoss);
  }

  async admit(command: Admit): Promise<AdmitResult> {
    checkAdmit(command);
    const { account, key, requestId, want, min, leaseMs, tokens, notAfter, externalKey } = command;
    return this.#run(
      admit,
      account,
      [
        this.#clock(),
        requestId,
        key,
        String(want),
        String(min),
        String(leaseMs),
        String(tokens),
        String(Math.floor(Math.max(-1, Math.min(notAfter, Number.MAX_SAFE_INTEGER)))),
        externalKey ? '1' : '0',
      ],
      this.#admitTimeoutMs,
    );
  }

  async extend(command: Extend): Promise<ExtendResult> {
    checkExtend(command);
    const { account, requestId, hold, leaseMs, checkpoint } = command;
    return this.#run(extend, account, [
      this.#clock(),
      requestId,
      String(hold),
      String(leaseMs),
      String(checkpoint),
    ]);
  }

  async settle(command: Settle): Promise<SettleResult> {
    checkSettle(command);
    const { account, requestId, amount, key, model, usage, force } = command;
    return this.#run(settle, account, [
      this.#clock(),
      requestId,
      String(amount),
      key,
      String(usage.promptTokens + usage.completionTokens),
      force ? '1' : '0',
      settleDetails(model, usage),
    ]);
  }

  async void(command: Void): Promise<VoidResult> {
    checkVoid(command);
    return this.#run(release, command.account, [this.#clock(), command.requestId]);
  }

  async grant(command: Grant): Promise<GrantResult> {
    checkGrant(command);
    const { account, id, amount, expiresAt, priority = DEFAULT_PRIORITY } = command;
    const expiry = expiresAt === undefined ? '' : String(expiresAt);
    const result = await this.#run(grant, account, [
      this.#clock(),
      id,
      String(amount),
      expiry,
      String(priority),
    ]);
    await afterwards(this.#list(account));
    return result;
  }

  async adjust(command: Adjust): Promise<AdjustResult> {
    checkAdjust(command);
    const { account, id, delta, reason } = command;
    return this.#run(adjust, account, [this.#clock(), id, String(delta), adjustDetails(reason)]);
  }

  async sweep(budget: number): Promise<number> {
    let left = budget;
    for await (const account of this.accounts()) {
      for (;;) {
        const atMost = Math.min(left, SWEPT_BY_SCRIPT);
        const count = await this.#run(sweep, account, [this.#clock(), String(atMost)]);
        left -= count;
        if (count === 0 || count < atMost) break;
      }
    }
    return budget - left;
  }

  async snapshot(account: string): Promise<AccountState | undefined> {
    checkAccount(account);
    const state = await this.#run(snapshot, account, []);
    return state?.(account);
  }

  async balance(account: string): Promise<Balance | undefined> {
    checkAccount(account);
    return this.#run(balance, account, [this.#clock()]);
  }

  async journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    checkAccount(account);
    return this.#run(journal, account, [String(afterSeq), String(limit)]);
  }

  async trim(account: string, seq: bigint): Promise<void> {
    checkAccount(account);
    while ((await this.#run(trim, account, [String(seq)])) === 'more');
  }

  async freeze(account: string, frozen: boolean): Promise<boolean> {
    checkAccount(account);
    return this.#run(freeze, account, [frozen ? 'frozen' : 'open']);
  }

  async *accounts(): AsyncGenerator<string> {
    for (let shard = 0; shard < SHARDS; shard++) {
      // A scan may tell a member twice.
      const told = new Set<string>();
      let cursor = '0';
      do {
        const [next, members] = scanned(await this.#send('sscan', this.#shardKey(shard), cursor));
        cursor = next;
        for (const account of members) {
          if (!told.has(account)) yield account;
          told.add(account);
        }
      } while (cursor !== '0');
    }
  }

  async createKey(command: CreateKey): Promise<CreateKeyResult> {
    checkCreateKey(command);
    const { account, key, hash, name, limits = {} } = command;
    const own = `${account} ${key}`;
    const pointer = await this.#runAt(readPointer, [this.#pointerKey(hash)], []);
    const taken = pointer !== '' && pointer !== own;
    const terms = keyTerms(hash, limits);
    const result = await this.#run(createKey, account, [
      this.#clock(),
      key,
      terms,
      JSON.stringify(name),
      taken ? '1' : '0',
    ]);
    if (result.code === 'conflict') return result;

    await afterwards(this.#list(account));
    const holder = await afterwards(this.#runAt(writePointer, [this.#pointerKey(hash)], [own]));
    if (holder === own) return result;
    // Another key took the hash at the same moment: this one can never be found by it.
    await afterwards(this.#run(revokeKey, account, [this.#clock(), key]));
    return { ...result, code: 'conflict' };
  }

  async findKey(hash: string): Promise<KeyRecord | undefined> {
    const [account, key] = (await this.#runAt(readPointer, [this.#pointerKey(hash)], [])).split(' ');
    if (!account || !key) return undefined;
    const fields = await this.#run(readKey, account, [key]);
    return keyHash(fields, key) === hash ? keyRecord(account, fields, key) : undefined;
  }

  async keys(account: string): Promise<readonly KeyRecord[]> {
    checkAccount(account);
    const fields = await this.#run(readKeys, account, []);
    return keyIds(fields)
      .filter((key) => keyHash(fields, key) !== undefined)
      .map((key) => keyRecord(account, fields, key));
  }

  async revokeKey(account: string, key: string): Promise<boolean> {
    checkAccount(account);
    checkKey(key);
    return this.#run(revokeKey, account, [this.#clock(), key]);
  }

  /** Ends what waits for a connection. The client stays open: it is its owner's. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#stopWaiting?.();
    for (const event of LOSSES) this.#client.off(event, this.#countLoss);
  }

  #run<Args extends readonly string[], Reply>(
    script: Script<Args, Reply>,
    account: string,
    args: Args,
    timeoutMs = this.#timeoutMs,
  ): Promise<Reply> {
    const keys = ACCOUNT_KEYS.map((key) => `${this.#prefix}{${account}}:${key}`);
    return this.#runAt(script, keys, args, timeoutMs);
  }

  #runAt<Args extends readonly string[], Reply>(
    script: Script<Args, Reply>,
    keys: readonly string[],
    args: Args,
    timeoutMs = this.#timeoutMs,
  ): Promise<Reply> {
    return this.#bounded(timeoutMs, (send) => script.run(send, keys, args));
  }

  #send(command: string, ...args: readonly string[]): Promise<unknown> {
    return this.#bounded(this.#timeoutMs, (send) => send(command, ...args));
  }

  /** Names an account in the list of all: each time, so that a repeated call makes good one that was cut short. */
  async #list(account: string): Promise<void> {
    await this.#send('sadd', this.#shardKey(shardOf(account)), account);
  }

  #shardKey(shard: number): string {
    return `${this.#prefix}{acct${shard}}`;
  }

  #pointerKey(hash: string): string {
    return `${this.#prefix}k:${hash}`;
  }

  /** Does the work once there is a connection, in time, or throws StoreUnavailable. */
  async #bounded<T>(timeoutMs: number, work: (send: Send) => Promise<T>): Promise<T> {
    if (this.#closed) throw new StoreUnavailable('no');
    let sent = false;
    let losses = 0;
    let givenUp = false;
    const send: Send = async (command, ...args) => {
      // What nobody waits for any more is better not begun.
      if (givenUp) throw new StoreUnavailable('no');
      if (!sent) losses = this.#losses;
      sent = true;
      return this.#client.createBuiltinCommand(command).string.call(this.#client, ...args);
    };
    const attempt = this.#client.status === 'ready' ? work(send) : this.#ready().then(() => work(send));
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        givenUp = true;
        reject(new StoreUnavailable(sent ? 'unknown' : 'no'));
      }, timeoutMs);
    });
    try {
      return await Promise.race([attempt, timeout]);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      // A refusal may be the answer to a second sending, after the first one's connection was lost.
      const refused = wasRefused(error) && losses === this.#losses;
      throw new StoreUnavailable(refused ? 'no' : 'unknown', { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Waits for a client's first connection; one that has lost its connection is not waited for. */
  async #ready(): Promise<void> {
    const client = this.#client;
    if (!['wait', 'connecting', 'connect'].includes(client.status)) throw new StoreUnavailable('no');
    this.#connecting ??= new Promise<void>((resolve, reject) => {
      const done = (): void => {
        client.off('ready', done);
        client.off('close', done);
        this.#connecting = undefined;
        this.#stopWaiting = undefined;
        if (client.status === 'ready') resolve();
        else reject(new StoreUnavailable('no'));
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
}

/** Events of a client that lost its connection, and of a cluster that lost one of a node. */
const LOSSES = ['close', '-node'];

/** Errors of commands that were refused before they changed anything. */
const REFUSALS =
  /^(?:OOM|READONLY|LOADING|NOREPLICAS|MISCONF|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|BUSY|NOAUTH|NOPERM)\b|^Stream isn't writeable/;

function wasRefused(error: unknown): boolean {
  return error instanceof Error && REFUSALS.test(error.message);
}

/** A later step of a command whose first was made: however it fails, the command may have been applied. */
async function afterwards<T>(step: Promise<T>): Promise<T> {
  try {
    return await step;
  } catch (error) {
    throw new StoreUnavailable('unknown', { cause: error });
  }
}

const DEFAULT_PRIORITY = 50;

/** Ids that one script ends or forgets in a sweep, so that it doesn't keep others waiting. */
const SWEPT_BY_SCRIPT = 100;

/** Sets that name all accounts, each in a slot of its own. */
const SHARDS = 64;

function shardOf(account: string): number {
  let shard = 0;
  for (const character of account) shard = (shard * 31 + character.charCodeAt(0)) % SHARDS;
  return shard;
}

/** A scan's next cursor and what it found. */
function scanned(reply: unknown): [string, string[]] {
  const fields = new ReplyReader(reply);
  return [fields.text(), fields.nested().texts()];
}
