import type { PromptSize } from '../metering/estimate.ts';
import { headOf, type JsonKind, type JsonToken } from '../json/token.ts';
import { KeyTable } from '../json/key-table.ts';

/** What of a request a value is directly in; the prompt is counted by it. */
export type PromptPlace =
  | 'messages'
  | 'message'
  | 'content'
  | 'part'
  | 'link'
  | 'audio'
  | 'file'
  | 'schema'
  | 'elsewhere';

type Member = 'content' | 'link' | 'audio' | 'file' | 'url' | 'data' | 'file_data';

const KEYS: Readonly<Partial<Record<PromptPlace, KeyTable<Member>>>> = {
  message: new KeyTable<Member>({ content: 'content' }),
  part: new KeyTable<Member>({
    image_url: 'link',
    input_audio: 'audio',
    file: 'file',
    // Of other providers; they weigh as much as files do.
    audio_url: 'link',
    document_url: 'link',
    video_url: 'link',
  }),
  link: new KeyTable<Member>({ url: 'url' }),
  audio: new KeyTable<Member>({ data: 'data' }),
  file: new KeyTable<Member>({ file_data: 'file_data' }),
};

/**
 * Sizes up the prompt of a request, value by value.
 *
 * What can reach the model as text is counted: all strings and keys, and of the
 * schemas (`tools` and the like) everything but white space. Media count as
 * media, and only where providers look for media: at
 * `messages[].content[].image_url.url` a `data:` URL is an image, anywhere else
 * it is text.
 */
export class PromptReader {
  readonly size: { -readonly [part in keyof PromptSize]: number } = {
    messages: 0,
    stringBytes: 0,
    asciiChars: 0,
    nonAsciiChars: 0,
    images: 0,
    audioBytes: 0,
    files: 0,
    toolLists: 0,
  };

  /** The last key, if it means something where it is. */
  #member: Member | undefined;
  #isImage = false;
  /** How things stood where the current schema began. */
  #schema = { start: 0, spaces: 0, stringBytes: 0 };

  key(within: PromptPlace, token: JsonToken): void {
    this.countText(token);
    const match = KEYS[within]?.find(token);
    this.#member = match?.role;
    this.#isImage = match?.name === 'image_url';
  }

  /** Where the members or elements of the value are, if it has any. */
  value(within: PromptPlace, kind: JsonKind, token: JsonToken): PromptPlace {
    switch (within) {
      case 'messages':
        this.size.messages++;
        if (kind === 'object') return 'message';
        break;
      case 'message':
        if (kind === 'array' && this.#member === 'content') return 'content';
        break;
      case 'content':
        if (kind === 'object') return 'part';
        break;
      case 'part':
        if (this.#member !== undefined) return this.#medium(this.#member, kind, token);
        break;
      case 'audio':
        if (kind === 'string' && this.#member === 'data') {
          this.size.audioBytes += Math.floor(((token.asciiChars + token.nonAsciiChars) * 3) / 4);
          return 'elsewhere';
        }
        break;
      case 'link':
      case 'file':
        if (kind === 'string' && this.#member !== undefined && isUrl(token)) return 'elsewhere';
        break;
      default:
    }
    if (kind === 'string') this.countText(token);
    return 'elsewhere';
  }

  /** A string or key that may reach the model as text. */
  countText(token: JsonToken): void {
    this.size.stringBytes += token.end - token.start - 2;
    this.size.asciiChars += token.asciiChars;
    this.size.nonAsciiChars += token.nonAsciiChars;
  }

  /** Begins a value of which all is prompt, not only the strings; `endSchema` ends it. */
  beginSchema(token: JsonToken): PromptPlace {
    this.#schema = { start: token.start, spaces: token.spaces, stringBytes: this.size.stringBytes };
    return 'schema';
  }

  endSchema(token: JsonToken): void {
    const { start, spaces, stringBytes } = this.#schema;
    const punctuation = token.end - start - (token.spaces - spaces) - (this.size.stringBytes - stringBytes);
    this.size.stringBytes += punctuation;
    this.size.asciiChars += punctuation;
  }

  /** A member of a content part that holds an image, audio or a file; some providers take a bare URL for the object. */
  #medium(member: Member, kind: JsonKind, token: JsonToken): PromptPlace {
    if (member !== 'audio' && kind !== 'null') {
      if (this.#isImage) this.size.images++;
      else this.size.files++;
    }
    if (kind === 'object' && (member === 'link' || member === 'audio' || member === 'file')) return member;
    if (kind === 'string' && !(member === 'link' && isUrl(token))) this.countText(token);
    return 'elsewhere';
  }
}

function isUrl(token: JsonToken): boolean {
  return /^(data|https?):/i.test(headOf(token, 6));
}
