import { createHash } from 'node:crypto';

import type { ReplyMeta } from '../../../contract/reply.ts';
import { linkLua } from './link-lua.ts';

/** Sends one command to Redis. The client finds the keys in it, because it knows `EVALSHA` and `EVAL`. */
export type Send = (command: string, args: readonly string[]) => Promise<unknown>;

/** A Lua script with the parser of its reply. */
export interface LuaScript<Args extends readonly string[], Reply> {
  /** As it was written, before it was linked. */
  readonly text: string;
  readonly source: string;
  readonly hash: string;
  readonly read: (reply: ReplyReader) => Reply;
  /** A type alone: what it is run with. */
  readonly args?: Args;
}

/** Sets `now`, in ms: ARGV[1], or Redis's own time if that is empty. Scripts of an account have `clock` in its place. */
export const NOW_LUA: string = /* lua */ `local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end`;

/** Makes a script of its source, which begins with its `#!lua` line. */
export function defineScript<Args extends readonly string[], Reply>(
  text: string,
  read: (reply: ReplyReader) => Reply,
): LuaScript<Args, Reply> {
  return new DefinedScript(text, read);
}

/** Is linked once it is needed: linking all of them takes 70 ms, also of an app that has another store. */
class DefinedScript<Args extends readonly string[], Reply> implements LuaScript<Args, Reply> {
  readonly text: string;
  readonly read: (reply: ReplyReader) => Reply;
  #source: string | undefined;
  #hash: string | undefined;

  constructor(text: string, read: (reply: ReplyReader) => Reply) {
    this.text = text;
    this.read = read;
  }

  get source(): string {
    return (this.#source ??= linkLua(this.text));
  }

  get hash(): string {
    return (this.#hash ??= createHash('sha1').update(this.source).digest('hex'));
  }
}

/** Reads a reply sequentially. Scripts reply with arrays of strings and of such arrays. */
export class ReplyReader {
  readonly #values: readonly unknown[];
  #next = 0;

  constructor(reply: unknown) {
    if (!Array.isArray(reply)) throw new TypeError('The reply of a script is not an array');
    this.#values = reply;
  }

  get isOver(): boolean {
    return this.#next >= this.#values.length;
  }

  text(): string {
    const value = this.#values[this.#next++];
    if (typeof value !== 'string')
      throw new TypeError('The reply of a script has a value that is not a string');
    return value;
  }

  /** All remaining values, as strings. */
  texts(): string[] {
    const texts: string[] = [];
    while (this.#next < this.#values.length) texts.push(this.text());
    return texts;
  }

  amount(): bigint {
    return BigInt(this.text());
  }

  count(): number {
    return Number(this.text());
  }

  nested(): ReplyReader {
    return new ReplyReader(this.#values[this.#next++]);
  }

  /** All remaining values as pairs: of a hash, or of a sorted set's members and scores. */
  pairs(): [string, string][] {
    const pairs: [string, string][] = [];
    while (this.#next < this.#values.length) pairs.push([this.text(), this.text()]);
    return pairs;
  }

  /** The common part of every reply to a command, after its code. */
  meta(): ReplyMeta {
    const meta = { now: this.count(), seq: this.amount() };
    const past = this.text();
    return past === '0' ? meta : { ...meta, ...(past === '1' ? { rolledBack: true } : { deleted: true }) };
  }
}

/** For a reply code that a script is not expected to return. */
export function unknownCode(code: string): TypeError {
  return new TypeError(`unknown reply code of a script: ${JSON.stringify(code)}`);
}
