import type { OutputLimitField } from '../options/provider-options.ts';
import { concatChunks, byteLength, type BodyChunks, sliceChunks } from './body-chunks.ts';

/** Bytes of a body, from `start` to before `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A replacement for the bytes of a span; an empty span inserts. */
export interface Splice extends Span {
  readonly text: string;
}

/** The span of a member's value, and of its key with quotes. */
export interface MemberSpan extends Span {
  readonly key: Span;
}

/** Positions at which a request can be edited. */
export interface EditPoints {
  /** The value of `model`, with quotes. Members are added after it, where a leading comma is always valid. */
  readonly model: Span;
  /** The edit that makes `stream_options.include_usage` true; undefined if it is true, or the request isn't streamed. */
  readonly includeUsage: Splice | undefined;
  /** The output limits that the client sent, including null. */
  readonly max_tokens: MemberSpan | undefined;
  readonly max_completion_tokens: MemberSpan | undefined;
}

export interface RequestEdits {
  /** The provider's name for the model. */
  readonly model?: string | undefined;
  /** Requests usage in a stream; no effect if `EditPoints.includeUsage` is undefined. */
  readonly includeUsage?: boolean;
  readonly outputLimit?: OutputLimitEdit | undefined;
  /** Edits by the target's body rules. */
  readonly members?: MemberEdits | undefined;
}

/** Edits of members that the router doesn't interpret. */
export interface MemberEdits {
  /** New keys and values in place of existing ones. */
  readonly replaced: readonly Splice[];
  /** Whole members, including their keys. */
  readonly dropped: readonly Span[];
  /** Members to add, each with a leading comma. */
  readonly added: string;
}

/** Lowers the client's output limits to at most `tokens`. */
export interface OutputLimitEdit {
  readonly field: OutputLimitField;
  readonly tokens: number;
  /** Adds the field if the client gave no limit. */
  readonly inserts: boolean;
  /** Moves a limit from the other field to this one, the only one that the provider obeys. */
  readonly moves: boolean;
}

/** The part of a ChatRequest that splicing needs. */
interface Editable {
  readonly maxTokens: number | undefined;
  readonly maxCompletionTokens: number | undefined;
  /** Members that are removed. */
  readonly routingFields: readonly Span[];
  readonly edits: EditPoints;
}

/** Smaller bodies are copied: that is faster than several writes. */
const MIN_CHUNKED_BYTES = 16_384;

/** The original bytes with the edits spliced in; the same chunks if there are no edits. */
export function spliceRequest(body: BodyChunks, request: Editable, edits: RequestEdits): BodyChunks {
  const points = request.edits;
  const splices: Splice[] = [];
  if (edits.model !== undefined) splices.push({ ...points.model, text: JSON.stringify(edits.model) });
  if (edits.includeUsage && points.includeUsage) splices.push(points.includeUsage);
  if (edits.outputLimit) limitOutput(splices, request, edits.outputLimit);
  let removed = request.routingFields;
  if (edits.members) {
    const { replaced, dropped, added } = edits.members;
    splices.push(...replaced);
    if (added !== '') splices.push({ start: points.model.end, end: points.model.end, text: added });
    removed = [...removed, ...dropped];
  }
  if (removed.length > 0) splices.push(...removals(concatChunks(body), removed));
  if (splices.length === 0) return body;

  // Stable sort: at the end of the model's value, insertions come before removals.
  splices.sort((a, b) => a.start - b.start);
  const length = byteLength(body);
  if (length < MIN_CHUNKED_BYTES) return [spliceCopy(concatChunks(body), splices)];
  const chunks: Buffer[] = [];
  let kept = 0;
  for (const { start, end, text } of splices) {
    chunks.push(...sliceChunks(body, kept, start), Buffer.from(text));
    kept = end;
  }
  chunks.push(...sliceChunks(body, kept, length));
  return chunks;
}

/** Without a view of each part, of which each takes as much memory as a short message. */
function spliceCopy(body: Buffer, splices: readonly Splice[]): Buffer {
  let length = body.length;
  for (const { start, end, text } of splices) length += Buffer.byteLength(text) - (end - start);
  const copy = Buffer.allocUnsafe(length);
  let kept = 0;
  let at = 0;
  for (const { start, end, text } of splices) {
    at += body.copy(copy, at, kept, start);
    at += copy.write(text, at);
    kept = end;
  }
  body.copy(copy, at, kept);
  return copy;
}

/** Adds the splices of an edit of the output limit. */
function limitOutput(splices: Splice[], request: Editable, edit: OutputLimitEdit): void {
  const { field, tokens, inserts, moves } = edit;
  const { edits } = request;
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
  const own = limitIn(request, field);
  const others = limitIn(request, other);
  if (own === undefined && (others === undefined ? inserts : moves)) {
    const text = String(Math.min(tokens, others ?? tokens));
    const existing = edits[field];
    const moved = others === undefined ? undefined : edits[other];
    if (existing) {
      splices.push({ ...existing, text });
      if (moved) splices.push({ ...moved, text: 'null' });
    } else if (moved) splices.push({ ...moved.key, text: JSON.stringify(field) }, { ...moved, text });
    else splices.push({ start: edits.model.end, end: edits.model.end, text: `,"${field}":${text}` });
    return;
  }
  for (const name of LIMIT_FIELDS) {
    const span = edits[name];
    if (span && (limitIn(request, name) ?? 0) > tokens) splices.push({ ...span, text: String(tokens) });
  }
}

const LIMIT_FIELDS = ['max_tokens', 'max_completion_tokens'] as const;

function limitIn({ maxTokens, maxCompletionTokens }: Editable, field: OutputLimitField): number | undefined {
  return field === 'max_tokens' ? maxTokens : maxCompletionTokens;
}

/** The splices that remove members from a body, each with one comma. */
function removals(body: Buffer, fields: readonly Span[]): Splice[] {
  const spans: Splice[] = [];
  for (const { start, end } of [...fields].sort((a, b) => a.start - b.start)) {
    let before = start - 1;
    while (isBlank(body[before])) before--;
    // The comma before it may have been removed with the previous member. `model` stays, so there is one before or after.
    if (body[before] === COMMA && before >= (spans.at(-1)?.end ?? 0)) {
      spans.push({ start: before, end, text: '' });
    } else {
      spans.push({ start, end: body.indexOf(COMMA, end) + 1, text: '' });
    }
  }
  return spans;
}

const COMMA = 0x2c;

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
