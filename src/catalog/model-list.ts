import * as crypto from 'node:crypto';

import { LRUCache } from 'lru-cache';

import { flatMapInSlices, forEachInSlices } from '../async/slices.ts';
import type { TaggedBody } from '../http/respond.ts';
import type { MarkupTerms } from '../metering/markup.ts';
import type { ModelPatterns } from '../options/model-patterns.ts';
import type { Model } from './model.ts';
import { type ModelQuery, nextPageOf } from './model-query.ts';
import { type ModelRecord, recordOf } from './model-record.ts';

/**
 * The answers to `GET /models` at one markup. A catalog never changes: each record is serialised once, when a page first has it.
 *
 * A list can have thousands of models, and each client chooses its own queries. So all work on it is done in slices.
 */
export class ModelList {
  /** In the order of the catalog. */
  readonly #models: Promise<readonly ListedModel[]>;
  readonly #facets = new Map<string, Facets>();
  /** What a key may use, by the name of its patterns. */
  readonly #allowed = new LRUCache<string, AllowedModels>({ max: MAX_POLICIES });

  constructor(models: readonly Model[], markup: MarkupTerms) {
    this.#models = flatMapInSlices(models, (model) => [new ListedModel(model, markup)]);
  }

  /** The page that a query selects of the allowed models. */
  async page(query: ModelQuery, patterns: ModelPatterns | undefined): Promise<TaggedBody> {
    const allowed = this.#allowedBy(patterns);
    if (!hasFilter(query) && query.offset === 0 && query.limit === undefined) {
      allowed.whole ??= allowed.models.then((models) => pageOf(models, query));
      return await allowed.whole;
    }
    const models = await allowed.models;
    return await pageOf(hasFilter(query) ? await this.#filter(models, query) : models, query);
  }

  /** The records of the allowed models; the caller may change them. */
  async records(patterns: ModelPatterns | undefined): Promise<ModelRecord[]> {
    return flatMapInSlices(await this.#allowedBy(patterns).models, ({ record }): ModelRecord[] => [
      JSON.parse(record.toString()),
    ]);
  }

  #allowedBy(patterns: ModelPatterns | undefined): AllowedModels {
    const name = patterns?.name ?? '';
    const known = this.#allowed.get(name);
    if (known) return known;
    const allowed = { models: this.#select(patterns), whole: undefined };
    this.#allowed.set(name, allowed);
    return allowed;
  }

  async #select(patterns: ModelPatterns | undefined): Promise<readonly ListedModel[]> {
    const models = await this.#models;
    if (!patterns) return models;
    return flatMapInSlices(models, (listed) => (patterns.allowsModel(listed.names) ? [listed] : []));
  }

  #filter(models: readonly ListedModel[], query: ModelQuery): Promise<readonly ListedModel[]> {
    const { text } = query;
    const matching = new Map<Facets, boolean>();
    return flatMapInSlices(models, (listed) => {
      const facets = (listed.facets ??= this.#facetsOf(listed.model));
      let isMatch = matching.get(facets);
      if (isMatch === undefined) matching.set(facets, (isMatch = matchesFacets(facets, query)));
      return isMatch && (text === '' || listed.text.includes(text)) ? [listed] : [];
    });
  }

  /** Equal facets are one object, so that a query looks at them once. */
  #facetsOf({ info }: Model): Facets {
    const { supportedParameters = [], inputModalities = TEXT, outputModalities = TEXT } = info;
    const name = JSON.stringify([supportedParameters, inputModalities, outputModalities]);
    let facets = this.#facets.get(name);
    if (!facets) {
      facets = {
        parameters: new Set(supportedParameters),
        inputs: new Set(inputModalities),
        outputs: new Set(outputModalities),
      };
      this.#facets.set(name, facets);
    }
    return facets;
  }
}

/** A body with its strong ETag. */
export function tagged(body: Buffer): TaggedBody {
  return { length: body.length, pieces: () => [body], etag: `"${crypto.hash('sha256', body, 'base64url')}"` };
}

/** Apps sell a few sets of models. */
const MAX_POLICIES = 100;
/** A page is sent in pieces of about this many bytes. */
const PIECE_BYTES = 65_536;

/** Digests that are hashed together: a call for each takes longer than the hash. */
const DIGESTS_LENGTH = 8192;

const LIST_HEAD = Buffer.from('{"object":"list","data":[');
const COMMA = Buffer.from(',');
const TEXT: readonly string[] = ['text'];

interface AllowedModels {
  readonly models: Promise<readonly ListedModel[]>;
  /** The page of all of them, once it was asked for. */
  whole: Promise<TaggedBody> | undefined;
}

/** What a query filters by beside the text; many models have the same. */
interface Facets {
  readonly parameters: ReadonlySet<string>;
  readonly inputs: ReadonlySet<string>;
  readonly outputs: ReadonlySet<string>;
}

/** A model and what was made of it so far. */
class ListedModel {
  readonly model: Model;
  facets: Facets | undefined;
  readonly #markup: MarkupTerms;
  #text: string | undefined;
  #record: Buffer | undefined;
  #digest: string | undefined;

  constructor(model: Model, markup: MarkupTerms) {
    this.model = model;
    this.#markup = markup;
  }

  /** The ID and aliases: a key that allows one of them lists the model. */
  get names(): readonly string[] {
    return [this.model.id, ...this.model.aliases];
  }

  /** Names to search, in lower case. */
  get text(): string {
    return (this.#text ??= [...this.names, this.model.info.name].join('\n').toLowerCase());
  }

  get record(): Buffer {
    return (this.#record ??= recordOf(this.model, this.#markup));
  }

  get digest(): string {
    return (this.#digest ??= crypto.hash('sha256', this.record, 'base64'));
  }
}

function hasFilter({ parameters, inputs, outputs, text }: ModelQuery): boolean {
  return parameters.length > 0 || inputs.length > 0 || outputs.length > 0 || text !== '';
}

function matchesFacets(facets: Facets, { parameters, inputs, outputs }: ModelQuery): boolean {
  return (
    parameters.every((name) => facets.parameters.has(name)) &&
    (inputs.length === 0 || inputs.some((name) => facets.inputs.has(name))) &&
    (outputs.length === 0 || outputs.some((name) => facets.outputs.has(name)))
  );
}

/** The ETag is of the digests of the records, so that no page is hashed as a whole. */
async function pageOf(found: readonly ListedModel[], query: ModelQuery): Promise<TaggedBody> {
  const { offset, limit = found.length } = query;
  const page = found.slice(offset, offset + limit);
  const next = offset + limit < found.length ? `models?${nextPageOf(query)}` : null;
  const tail = Buffer.from(`],"links":{"next":${JSON.stringify(next)}},"total_count":${found.length}}`);
  const etag = crypto.createHash('sha256').update(tail);
  let digests = '';
  let length = LIST_HEAD.length + Math.max(0, page.length - 1) + tail.length;
  await forEachInSlices(page, ({ record, digest }) => {
    length += record.length;
    digests += digest;
    if (digests.length < DIGESTS_LENGTH) return;
    etag.update(digests);
    digests = '';
  });
  etag.update(digests);
  return { length, pieces: () => piecesOf(page, tail), etag: `"${etag.digest('base64url')}"` };
}

/** The bytes of a page; records that were serialised before are copied only when their piece is sent. */
function* piecesOf(page: readonly ListedModel[], tail: Buffer): Generator<Buffer, void, undefined> {
  let parts: Buffer[] = [LIST_HEAD];
  let bytes = 0;
  for (const [i, { record }] of page.entries()) {
    if (i > 0) parts.push(COMMA);
    parts.push(record);
    bytes += record.length + COMMA.length;
    if (bytes < PIECE_BYTES) continue;
    yield Buffer.concat(parts);
    parts = [];
    bytes = 0;
  }
  yield Buffer.concat([...parts, tail]);
}
