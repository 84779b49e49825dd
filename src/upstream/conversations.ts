import { LRUCache } from 'lru-cache';

import type { Target } from '../catalog/model.ts';
import { hashOf } from '../platform/running-hash.ts';

/** Where a turn was served: the target, and which of its provider's keys, by its name; undefined for a client's own key. */
export interface ServedBy {
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  readonly key: string | undefined;
}

/** Remembers where conversations were served. It answers at once, as it is asked for each request. */
export interface ConversationMemory {
  /** @param turns - hashes of an account's conversation: the first one that is known counts */
  find(account: string, turns: readonly number[]): ServedBy | undefined;
  keep(account: string, turn: number, servedBy: ServedBy, ttlMs: number): void;
}

/** An account has the room of one shard: it can only displace conversations of those that share it. */
const SHARDS = 32;
const TURNS_PER_SHARD = 4096;

interface Kept {
  readonly servedBy: ServedBy;
  /** In ms since the epoch. */
  readonly until: number;
}

/** Where conversations were served by this process. */
export class LocalConversations implements ConversationMemory {
  /** Each is made when it is first needed. Keys contain the account. */
  readonly #shards: (LRUCache<string, Kept> | undefined)[] = [];
  readonly #now: () => number;

  /** @param now - in ms since the epoch */
  constructor(now: () => number = () => Date.now()) {
    this.#now = now;
  }

  find(account: string, turns: readonly number[]): ServedBy | undefined {
    const shard = this.#shards[shardOf(account)];
    if (!shard) return undefined;
    for (const turn of turns) {
      const kept = shard.get(keyOf(account, turn));
      if (kept && kept.until > this.#now()) return kept.servedBy;
    }
    return undefined;
  }

  keep(account: string, turn: number, servedBy: ServedBy, ttlMs: number): void {
    const shard = (this.#shards[shardOf(account)] ??= new LRUCache({ max: TURNS_PER_SHARD }));
    shard.set(keyOf(account, turn), { servedBy, until: this.#now() + ttlMs });
  }
}

function shardOf(account: string): number {
  return hashOf(account) % SHARDS;
}

/** A turn has no space: two accounts never have the same key. */
export function keyOf(account: string, turn: number): string {
  return `${turn} ${account}`;
}

/** Whether a turn was served where the one before was; `new` if none is known. */
export type Continuity = 'new' | 'kept' | 'moved';

export interface ConversationTerms {
  readonly account: string;
  /** The same for all turns. */
  readonly opening: number;
  /** By which the turn before may be known: this turn first. */
  readonly turns: readonly [number, ...number[]];
  readonly ttlMs: number;
}

/** The conversation of one request: it goes on where its last turn was served. */
export class Conversation {
  readonly #memory: ConversationMemory;
  readonly #terms: ConversationTerms;
  readonly #servedBy: ServedBy | undefined;

  constructor(memory: ConversationMemory, terms: ConversationTerms) {
    this.#memory = memory;
    this.#terms = terms;
    this.#servedBy = memory.find(terms.account, terms.turns);
  }

  /** The targets, with the one that served the last turn first. */
  preferred(targets: readonly Target[]): readonly Target[] {
    const known = targets.find((target) => this.isAt(target));
    return known ? [known, ...targets.filter((target) => target !== known)] : targets;
  }

  /** In place of a random number from 0 to below 1: for each target another, the same in all turns and all processes. */
  draw({ provider, model }: Target): number {
    const { account, opening } = this.#terms;
    return hashOf(account, opening, provider.name, model) / 2 ** 53;
  }

  /** The name of the provider's key that served the last turn. */
  keyAt(target: Target): string | undefined {
    return this.isAt(target) ? this.#servedBy?.key : undefined;
  }

  /** This target has answered. @param key - the name of the provider's key; undefined for a client's own */
  answered(target: Target, key: string | undefined): Continuity {
    const { account, turns, ttlMs } = this.#terms;
    const { provider, model } = target;
    this.#memory.keep(account, turns[0], { provider: provider.name, model, key }, ttlMs);
    if (!this.#servedBy) return 'new';
    return this.isAt(target) && this.#servedBy.key === key ? 'kept' : 'moved';
  }

  /** Whether this target served the last turn: the prompt may be in its cache. */
  isAt({ provider, model }: Target): boolean {
    return this.#servedBy?.provider === provider.name && this.#servedBy.model === model;
  }
}
