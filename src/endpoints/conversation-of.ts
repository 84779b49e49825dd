import type { IncomingHttpHeaders } from 'node:http';

import type { Model, SelectedModels } from '../catalog/model.ts';
import type { ConversationFields } from '../http/conversation-reader.ts';
import type { Caller } from '../keys/caller.ts';
import type { ConversationSource } from '../options/resolve-sticky.ts';
import { hashOf } from '../platform/running-hash.ts';
import { Conversation, type ConversationMemory } from '../upstream/conversations.ts';

/** What a conversation is known by. */
export interface ConversationClues {
  readonly caller: Pick<Caller, 'account' | 'endUser'>;
  readonly headers: IncomingHttpHeaders;
  /** Undefined if no source is in the body. */
  readonly fields: ConversationFields | undefined;
}

/** The conversation that a request belongs to; undefined if its model isn't sticky, or has but one place to be served. */
export function conversationOf(
  [model, ...others]: SelectedModels,
  clues: ConversationClues,
  memory: ConversationMemory,
): Conversation | undefined {
  const { sticky } = model;
  if (!sticky || (!hasChoice(model) && !others.some(hasChoice))) return undefined;
  const { account } = clues.caller;
  for (const source of sticky.by) {
    const found = source.name === 'prefix' ? turnsIn(clues) : namedBy(source, clues);
    const [last, ...before] = found?.turns ?? [];
    if (!found || last === undefined) continue;
    const seed = hashOf(model.id, source.name);
    const opening = hashOf(seed, found.opening);
    const turns = [hashOf(seed, last), ...before.map((turn) => hashOf(seed, turn))] as const;
    return new Conversation(memory, { account, opening, turns, ttlMs: sticky.ttlMs });
  }
  return undefined;
}

function hasChoice({ targets }: Model): boolean {
  return targets.length > 1 || targets[0].provider.apiKeys.length > 1;
}

type Turns = Pick<ConversationFields, 'turns'> & { readonly opening: number };

function turnsIn({ fields }: ConversationClues): Turns | undefined {
  const { opening, turns = [] } = fields ?? {};
  return opening === undefined ? undefined : { opening, turns };
}

/** A conversation that has one name in all turns. */
function namedBy(
  source: ConversationSource,
  { caller, headers, fields }: ConversationClues,
): Turns | undefined {
  const name =
    source.header !== undefined
      ? textHash(headers[source.header])
      : source.name === 'prompt_cache_key'
        ? fields?.promptCacheKey
        : (textHash(caller.endUser) ?? fields?.user);
  return name === undefined ? undefined : { opening: name, turns: [name] };
}

function textHash(text: string | readonly string[] | undefined): number | undefined {
  if (text === undefined || text.length === 0) return undefined;
  return typeof text === 'string' ? hashOf(text) : hashOf(...text);
}
