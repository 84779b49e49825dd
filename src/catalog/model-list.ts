import { createHash } from 'node:crypto';

import { LRUCache } from 'lru-cache';

import type { ModelPatterns } from '../options/model-patterns.ts';
import type { Model } from './model.ts';
import { type ModelQuery, nextPageOf } from './model-query.ts';
import { recordOf } from './model-record.ts';

/** Bytes to send, with their strong ETag. */
export interface TaggedBody {
  readonly body: Buffer;
  readonly etag: string;
}

/** The answers to `GET /models`: each record is serialised once, as a catalog never changes. */
export class ModelList {
  /** In the order of the catalog. */
  readonly #models: readonly ListedModel[];
  /** The models that a key may use, by the name of its patterns. */
  readonly #allowed = new LRUCache<string, readonly ListedModel[]>({ max: MAX_POLICIES });
  readonly #pages = new LRUCache<string, TaggedBody>({
    max: MAX_PAGES,
    maxSize: MAX_PAGE_BYTES,
    sizeCalculation: ({ body }) => body.length,
  });
  /** The page of all models: not evicted by others. */
  #all: TaggedBody | undefined;

  constructor(models: Iterable<Model>) {
    this.#models = [...models].map(listedModel);
  }

  /** The page that a query selects of the allowed models. */
  page(query: ModelQuery, patterns: ModelPatterns | undefined): TaggedBody {
    const key = JSON.stringify([patterns?.name, query]);
    if (key === ALL) return (this.#all ??= this.#serialise(query, undefined));
    const known = this.#pages.get(key);
    if (known) return known;
    const page = this.#serialise(query, patterns);
    this.#pages.set(key, page);
    return page;
  }

  #serialise(query: ModelQuery, patterns: ModelPatterns | undefined): TaggedBody {
    const found = this.#allowedBy(patterns).filter((model) => matches(model, query));
    const { offset, limit = found.length } = query;
    const page = found.slice(offset, offset + limit);
    const next = offset + limit < found.length ? `models?${nextPageOf(query)}` : null;
    const tail = `],"links":{"next":${JSON.stringify(next)}},"total_count":${found.length}}`;
    const parts = page.flatMap(({ record }, i) => (i === 0 ? [record] : [COMMA, record]));
    return tagged(Buffer.concat([LIST_HEAD, ...parts, Buffer.from(tail)]));
  }

  #allowedBy(patterns: ModelPatterns | undefined): readonly ListedModel[] {
    if (!patterns) return this.#models;
    const known = this.#allowed.get(patterns.name);
    if (known) return known;
    const allowed = this.#models.filter(({ names }) => names.some((name) => patterns.allows(name)));
    this.#allowed.set(patterns.name, allowed);
    return allowed;
  }
}

/** Every model of the list. */
export const WHOLE_LIST: ModelQuery = {
  parameters: [],
  inputs: [],
  outputs: [],
  text: '',
  offset: 0,
  limit: undefined,
};
const ALL = JSON.stringify([undefined, WHOLE_LIST]);

/** Adds the strong ETag of the bytes. */
export function tagged(body: Buffer): TaggedBody {
  return { body, etag: `"${createHash('sha256').update(body).digest('base64url')}"` };
}

/** Apps sell a few sets of models. */
const MAX_POLICIES = 100;
/** Clients choose the queries: their pages are bounded by number and by bytes. */
const MAX_PAGES = 500;
const MAX_PAGE_BYTES = 33_554_432;

const LIST_HEAD = Buffer.from('{"object":"list","data":[');
const COMMA = Buffer.from(',');

interface ListedModel {
  /** The ID and aliases: a key that allows one of them lists the model. */
  readonly names: readonly string[];
  readonly record: Buffer;
  readonly parameters: readonly string[];
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Names to search, in lower case. */
  readonly text: string;
}

function listedModel(model: Model): ListedModel {
  const { supportedParameters = [], inputModalities = TEXT, outputModalities = TEXT, name } = model.info;
  const names = [model.id, ...model.aliases];
  return {
    names,
    record: recordOf(model),
    parameters: supportedParameters,
    inputs: inputModalities,
    outputs: outputModalities,
    text: [...names, name].join('\n').toLowerCase(),
  };
}

const TEXT: readonly string[] = ['text'];

function matches(model: ListedModel, { parameters, inputs, outputs, text }: ModelQuery): boolean {
  return (
    parameters.every((name) => model.parameters.includes(name)) &&
    (inputs.length === 0 || inputs.some((name) => model.inputs.includes(name))) &&
    (outputs.length === 0 || outputs.some((name) => model.outputs.includes(name))) &&
    (text === '' || model.text.includes(text))
  );
}
