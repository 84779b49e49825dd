import type { OutputLimitField } from '../options/provider-options.ts';
import { concatChunks, byteLength, type BodyChunks, sliceChunks } from './body-chunks.ts';

/** Bytes of a body, from `start` to before `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Bytes that stand where others stood; an empty span inserts. */
export interface Splice extends Span {
  readonly text: string;
}

/** The value of a member, and its key, quotes included. */
export interface MemberSpan extends Span {
  readonly key: Span;
}

/** Where a request can be edited. */
export interface EditPoints {
  /** The value of `model`, quotes included. Members are added after it: there a comma is always right. */
  readonly model: Span;
  /** What makes `stream_options.include_usage` true; undefined where it is, or nothing streams. */
  readonly includeUsage: Splice | undefined;
  /** The values of the output limits, where the client wrote them; null is one of them. */
  readonly max_tokens: MemberSpan | undefined;
  readonly max_completion_tokens: MemberSpan | undefined;
}

export interface RequestEdits {
  /** The model's name at the provider. */
  readonly model?: string;
  /** Asks the provider for usage in a stream; without effect where `edits.includeUsage` is undefined. */
  readonly includeUsage?: boolean;
  readonly outputLimit?: OutputLimitEdit;
  /** What the target's rules do to members of the body. */
  readonly members?: MemberEdits;
}

/** Edits of members that the router itself doesn't look at. */
export interface MemberEdits {
  /** Keys and values, each in its place. */
  readonly replaced: readonly Splice[];
  /** Whole members, from their keys on. */
  readonly dropped: readonly Span[];
  /** Members to add, each after a comma. */
  readonly added: string;
}

/** Lowers the client's limits to at most so many tokens. */
export interface OutputLimitEdit {
  readonly field: OutputLimitField;
  readonly tokens: number;
  /** Adds the field where the client gave no limit. */
  readonly inserts: boolean;
  /** Makes a limit that stands only in the other field one of this field: the provider obeys no other. */
  readonly moves: boolean;
}

/** The part of a ChatRequest that splicing needs. */
interface Editable {
  readonly maxTokens: number | undefined;
  readonly maxCompletionTokens: number | undefined;
  /** Members that are taken out. */
  readonly routingFields: readonly Span[];
  readonly edits: EditPoints;
}

/** Less than this is sooner copied than written piece by piece. */
const MIN_CHUNKED_BYTES = 16_384;

/** The original bytes with the edits spliced in; the same pieces when there is none. */
export function spliceRequest(body: BodyChunks, request: Editable, edits: RequestEdits): BodyChunks {
  const points = request.edits;
  const splices: Splice[] = [];
  if (edits.model !== undefined) splices.push({ ...points.model, text: JSON.stringify(edits.model) });
  if (edits.includeUsage && points.includeUsage) splices.push(points.includeUsage);
  if (edits.outputLimit) splices.push(...limitOutput(request, edits.outputLimit));
  const { replaced = [], dropped = [], added = '' } = edits.members ?? {};
  splices.push(...replaced);
  if (added !== '') splices.push({ start: points.model.end, end: points.model.end, text: added });
  const removed = dropped.length > 0 ? [...request.routingFields, ...dropped] : request.routingFields;
  if (removed.length > 0) splices.push(...removals(concatChunks(body), removed));
  if (splices.length === 0) return body;

  // What is added right after the model's value starts where that ends, and so may what is taken out: in this order.
  splices.sort((a, b) => a.start - b.start);
  const chunks: Buffer[] = [];
  let kept = 0;
  for (const { start, end, text } of splices) {
    chunks.push(...sliceChunks(body, kept, start), Buffer.from(text));
    kept = end;
  }
  const length = byteLength(body);
  chunks.push(...sliceChunks(body, kept, length));
  return length < MIN_CHUNKED_BYTES ? [Buffer.concat(chunks)] : chunks;
}

function limitOutput(request: Editable, { field, tokens, inserts, moves }: OutputLimitEdit): Splice[] {
  const { edits } = request;
  const asked = { max_tokens: request.maxTokens, max_completion_tokens: request.maxCompletionTokens };
  const other = field === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens';
  const [own, others] = [asked[field], asked[other]];
  if (own === undefined && (others === undefined ? inserts : moves)) {
    const text = String(Math.min(tokens, others ?? tokens));
    const [place, moved] = [edits[field], others === undefined ? undefined : edits[other]];
    if (place) return [{ ...place, text }, ...(moved ? [{ ...moved, text: 'null' }] : [])];
    if (moved)
      return [
        { ...moved.key, text: JSON.stringify(field) },
        { ...moved, text },
      ];
    return [{ start: edits.model.end, end: edits.model.end, text: `,"${field}":${text}` }];
  }
  return ([field, other] as const).flatMap((name) => {
    const span = edits[name];
    return span && (asked[name] ?? 0) > tokens ? [{ ...span, text: String(tokens) }] : [];
  });
}

/** What takes the members out of a body, each with the comma that goes with it. */
function removals(body: Buffer, fields: readonly Span[]): Splice[] {
  const spans: Splice[] = [];
  for (const { start, end } of [...fields].sort((a, b) => a.start - b.start)) {
    let before = start - 1;
    while (isBlank(body[before])) before--;
    // The comma before it may be gone with the member before it; `model` stays, so one of the two is there.
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
