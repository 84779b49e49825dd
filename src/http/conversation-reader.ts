import type { JsonKind, JsonToken } from '../json/token.ts';
import { RunningHash } from '../platform/running-hash.ts';
import type { PromptReader } from './prompt-reader.ts';

/** What a body says of the conversation that it belongs to, as hashes; undefined where it says nothing. */
export interface ConversationFields {
  readonly promptCacheKey: number | undefined;
  /** Of `safety_identifier`, else of `user`. */
  readonly user: number | undefined;
  /** Of the messages up to the first one of a user: the same in each turn. Undefined if messages aren't read, or there is none. */
  readonly opening: number | undefined;
  /** Of all messages, then of all but the last, and so on: the next turn has the first of these among its own. At most 32. */
  readonly turns: readonly number[];
}

/** How many messages a client may add between two turns: answers of tools. */
const MAX_TURNS = 32;
/** Of each string its beginning is hashed, and its length: a string that spans chunks is kept no longer. */
const HEAD_BYTES = 256;

/**
 * Hashes a conversation while its request is scanned: it is shown each value, and keeps none.
 *
 * Of the messages it hashes the strings in their order: the role, the text, the arguments of tools. Keys, marks of caches and the types
 * of parts don't count, because clients move the marks from turn to turn, and write a text as a part to mark it.
 */
export class ConversationReader {
  readonly #readsMessages: boolean;
  #messages = new RunningHash();
  /** A ring: the last hashes at ends of messages. */
  readonly #turns: number[] = [];
  #count = 0;
  #opening: number | undefined;
  #isInMessage = false;
  #isUsers = false;
  #promptCacheKey: number | undefined;
  #user: number | undefined;
  #safetyIdentifier: number | undefined;

  constructor(readsMessages: boolean) {
    this.#readsMessages = readsMessages;
  }

  /**
   * @param within - the part of the request that directly contains the value
   * @param name - the last known key at the top level
   * @param member - the last known key in a message
   */
  value(
    within: string,
    kind: JsonKind,
    token: JsonToken,
    name: string | undefined,
    member: PromptReader['member'],
  ): void {
    if (within === 'request') {
      this.#endMessage();
      if (kind === 'string' && token.end - token.start > 2) this.#field(name, token);
      return;
    }
    if (!this.#readsMessages) return;
    if (within === 'messages') {
      this.#endMessage();
      this.#isInMessage = true;
    }
    if (kind !== 'string' || !this.#isInMessage || within === 'cache control') return;
    if (member === 'type' && within === 'part') return;
    if (member === 'role' && within === 'message') this.#isUsers ||= isUser(token);
    addHead(this.#messages, token);
  }

  /** Once the body has ended. */
  fields(): ConversationFields {
    this.#endMessage();
    const turns = this.#turns.map((_turn, back) => this.#turns[(this.#count - 1 - back) % MAX_TURNS] ?? 0);
    const user = this.#safetyIdentifier ?? this.#user;
    const opening = this.#opening ?? turns.at(0);
    return { promptCacheKey: this.#promptCacheKey, user, opening, turns };
  }

  #field(name: string | undefined, token: JsonToken): void {
    if (name === 'prompt_cache_key') this.#promptCacheKey = hashOfString(token);
    else if (name === 'user') this.#user = hashOfString(token);
    else if (name === 'safety_identifier') this.#safetyIdentifier = hashOfString(token);
  }

  #endMessage(): void {
    if (!this.#isInMessage) return;
    this.#isInMessage = false;
    // Where one message ends and the next one begins.
    this.#messages.addNumber(0);
    const { value } = this.#messages;
    this.#turns[this.#count % MAX_TURNS] = value;
    this.#count += 1;
    if (this.#isUsers) this.#opening ??= value;
    this.#isUsers = false;
  }
}

function isUser({ bytes, from, to }: JsonToken): boolean {
  return to - from === 4 && bytes[from] === 0x75 && bytes[from + 1] === 0x73 && bytes[from + 3] === 0x72; // us?r
}

function hashOfString(token: JsonToken): number {
  const hash = new RunningHash();
  addHead(hash, token);
  return hash.value;
}

/** As the bytes are written, with escapes. */
function addHead(hash: RunningHash, { bytes, from, to, start, end }: JsonToken): void {
  hash.addNumber(end - start);
  hash.addBytes(bytes, from, Math.min(to, from + HEAD_BYTES));
}
