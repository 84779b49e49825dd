import { withTimeout } from '../../../async/timeout.ts';
import { StoreUnavailableError } from '../../contract/ledger-store.ts';
import { duplicateClient, type RedisClient } from './redis-client.ts';
import { type Primary, RedisConnection } from './redis-connection.ts';
import type { Send } from './lua/define-script.ts';

/** When a write of an operator's command counts as durable. */
export interface Durability {
  /**
   * Number of replicas that must have the write; 0 waits for none.
   *
   * @default 1 where the primary has replicas, else 0
   */
  readonly replicas?: number;
  /**
   * How long to wait for the replicas and the disk, in ms.
   *
   * @default 1000
   */
  readonly timeoutMs?: number;
}

/** A reply, and whether its write is durable; undefined where durability can't be awaited. */
export interface DurableReply<Reply> {
  readonly reply: Reply;
  readonly durable: boolean | undefined;
}

/** What to wait for. */
interface Need {
  readonly replicas: number;
  readonly disk: boolean;
}

/**
 * Runs commands on separate connections, each followed by WAIT, which blocks its
 * connection and covers only the writes of that connection.
 *
 * WAIT counts the replicas that have the write; a failover may still promote another one.
 */
export class DurableWrites {
  readonly #main: RedisConnection;
  readonly #replicas: number | undefined;
  readonly #timeoutMs: number;
  readonly #lines = new Map<RedisClient, Line>();

  constructor(main: RedisConnection, { replicas, timeoutMs = 1000 }: Durability = {}) {
    if (replicas !== undefined && !(Number.isInteger(replicas) && replicas >= 0)) {
      throw new TypeError(`durability.replicas must be an integer from 0, got ${JSON.stringify(replicas)}`);
    }
    if (!(timeoutMs > 0 && timeoutMs <= MAX_WAIT_MS)) {
      throw new TypeError(
        `durability.timeoutMs must be from 1 to ${MAX_WAIT_MS}, got ${JSON.stringify(timeoutMs)}`,
      );
    }
    this.#main = main;
    this.#replicas = replicas;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Runs `work`, which must write something even when it is repeated, and waits until that write is durable.
   *
   * @param timeoutMs - how long the work itself may take
   */
  async run<Reply>(timeoutMs: number, work: (send: Send) => Promise<Reply>): Promise<DurableReply<Reply>> {
    const primaries = await this.#main.primaries(timeoutMs);
    const deadline = performance.now() + this.#timeoutMs;
    let primary = primaries.some((each) => this.#needOf(each)) ? primaries[0] : undefined;
    const waits = primary !== undefined;
    // In a cluster, the first primary may redirect to that of the account, and this one too if the slot has moved.
    for (let hops = 0; primary && hops < 3; hops++) {
      try {
        const need = this.#needOf(primary) ?? { replicas: 0, disk: false };
        return await this.#line(primary.client).run(work, { timeoutMs, need, deadline });
      } catch (error) {
        if (!(error instanceof StoreUnavailableError) || error.applied !== 'no') throw error;
        primary = movedTo(error.cause, primaries);
      }
    }
    // Refused there where it could have been waited for: the caller repeats it until it is durable.
    const reply = await work(this.#main.sender(timeoutMs));
    return { reply, durable: waits ? false : undefined };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#lines.values()].map((line) => line.close()));
  }

  #line(client: RedisClient): Line {
    let line = this.#lines.get(client);
    if (!line) {
      const made = new Line(client, this.#timeoutMs, () => {
        if (this.#lines.get(client) === made) this.#lines.delete(client);
      });
      this.#lines.set(client, made);
      line = made;
    }
    return line;
  }

  #needOf({ facts }: Primary): Need | undefined {
    const replicas = this.#replicas ?? (facts && facts.replicas > 0 ? 1 : 0);
    const disk = facts?.canWaitForDisk ?? false;
    return replicas > 0 || disk ? { replicas, disk } : undefined;
  }
}

/** A connection for durable writes. Closed when idle, or at its first failure. */
class Line {
  readonly #connection: RedisConnection;
  readonly #onEnd: () => void;
  /** The WAIT that blocks the connection. It covers all earlier writes on it. */
  #wait: Promise<boolean> | undefined;
  #running = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(client: RedisClient, waitMs: number, onEnd: () => void) {
    this.#connection = new RedisConnection(async () => duplicateClient(client, waitMs), { judges: false });
    this.#onEnd = onEnd;
  }

  async run<Reply>(
    work: (send: Send) => Promise<Reply>,
    { timeoutMs, need, deadline }: { timeoutMs: number; need: Need; deadline: number },
  ): Promise<DurableReply<Reply>> {
    clearTimeout(this.#idle);
    this.#running += 1;
    try {
      while (this.#wait) {
        if ((await by(deadline, this.#wait)) === undefined) throw new StoreUnavailableError('no');
      }
      const reply = await work(this.#connection.sender(timeoutMs));
      if (need.replicas === 0 && !need.disk) return { reply, durable: undefined };
      this.#wait ??= this.#await(need, deadline).finally(() => (this.#wait = undefined));
      return { reply, durable: (await by(deadline, this.#wait)) ?? false };
    } finally {
      this.#running -= 1;
      if (!this.#connection.isConnected) this.#end();
      else if (this.#running === 0) this.#idle = setTimeout(() => this.#end(), IDLE_MS).unref();
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#connection.close();
  }

  async #await({ replicas, disk }: Need, deadline: number): Promise<boolean> {
    const left = (): number => Math.ceil(leftUntil(deadline));
    try {
      const send = this.#connection.sender(left() + SLACK_MS);
      if (replicas > 0) {
        const have = Number(await send('wait', [String(replicas), String(left())]));
        if (have < replicas) return false;
      }
      if (!disk) return true;
      const reply = await send('waitaof', ['1', '0', String(left())]);
      return Array.isArray(reply) && Number(reply[0]) >= 1;
    } catch {
      return false;
    }
  }

  #end(): void {
    this.#onEnd();
    void this.close();
  }
}

const MAX_WAIT_MS = 60_000;
const MIN_WAIT_MS = 100;
const IDLE_MS = 5000;
/** A WAIT that times out is answered slightly after its timeout. */
const SLACK_MS = 500;

/** The outcome; undefined after the deadline. */
async function by<T>(deadline: number, outcome: Promise<T>): Promise<T | undefined> {
  return withTimeout(outcome, leftUntil(deadline), () => undefined);
}

/** Remaining time in ms, with a minimum that suffices for a reply if this process was busy until the deadline. */
function leftUntil(deadline: number): number {
  return Math.max(MIN_WAIT_MS, deadline - performance.now());
}

/** The primary that a MOVED error names. */
function movedTo(refusal: unknown, primaries: readonly Primary[]): Primary | undefined {
  const [, address] = /^MOVED \d+ (\S+)$/.exec(refusal instanceof Error ? refusal.message : '') ?? [];
  return primaries.find(({ client }) => `${client.options.host}:${client.options.port}` === address);
}
