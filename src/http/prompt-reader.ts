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
  | 'frames'
  | 'unknown part'
  | 'schema'
  | 'elsewhere';

type Member =
  | 'content'
  | 'text'
  | 'link'
  | 'audio'
  | 'file'
  | 'frames'
  | 'url'
  | 'data'
  | 'file_data'
  | 'reference';

const KEYS: Readonly<Partial<Record<PromptPlace, KeyTable<Member>>>> = {
  message: new KeyTable<Member>({ content: 'content' }),
  part: new KeyTable<Member>({
    image_url: 'link',
    input_audio: 'audio',
    file: 'file',
    text: 'text',
    // Of other providers; they weigh as much as files do.
    audio_url: 'link',
    document_url: 'link',
    file_id: 'link', // Mistral
    file_url: 'link',
    pdf_url: 'link',
    video_url: 'link',
    // Of Qwen: a video as a list of images.
    video: 'frames',
  }),
  link: new KeyTable<Member>({ url: 'url' }),
  'unknown part': new KeyTable<Member>({ text: 'text', file_id: 'reference' }),
  audio: new KeyTable<Member>({ data: 'data' }),
  file: new KeyTable<Member>({ file_data: 'file_data', file_id: 'reference', file_url: 'reference' }),
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
    fileBytes: 0,
    linkedFiles: 0,
    toolLists: 0,
  };

  /** The last key, if it means something where it is. */
  #member: Member | undefined;
  #isImage = false;
  /** Where the current file is, as far as its members were read. */
  #file: 'unknown' | 'here' | 'elsewhere' = 'unknown';
  /** How things stood where the current schema began. */
  #schema = { start: 0, spaces: 0, stringBytes: 0 };

  key(within: PromptPlace, token: JsonToken): void {
    this.countText(token);
    const match = KEYS[within]?.find(token);
    this.#member = match?.role;
    if (within === 'part') this.#isImage = match?.name === 'image_url';
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
        return this.#memberOfPart(this.#member, kind, token);
      case 'frames':
        if (kind === 'string') this.size.images++;
        if (kind === 'string' && isUrl(token)) return 'elsewhere';
        break;
      case 'unknown part':
        if (kind === 'object' || kind === 'array') return 'unknown part';
        if (kind !== 'string' || this.#member === 'text') break;
        if (this.#member === 'reference' || isAddress(token)) this.#link();
        break;
      case 'audio':
        // Qwen fetches it.
        if (kind === 'string' && isAddress(token)) this.#link();
        else if (kind === 'string' && this.#member === 'data') {
          this.size.audioBytes += bytesOfBase64(token);
          return 'elsewhere';
        }
        break;
      case 'link':
      case 'file':
        if (kind !== 'string') break;
        if (this.#member === 'reference' || (this.#member === undefined && isAddress(token))) this.#refer();
        else if (this.#member !== undefined && isUrl(token)) {
          this.#address(token);
          return 'elsewhere';
        }
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
  #memberOfPart(member: Member | undefined, kind: JsonKind, token: JsonToken): PromptPlace {
    if (member === 'frames' && kind === 'array') return 'frames';
    if (
      kind === 'string' &&
      member !== 'text' &&
      member !== 'link' &&
      member !== 'file' &&
      isAddress(token)
    ) {
      this.#link();
    }
    if (member === undefined || member === 'text' || member === 'frames') {
      if (kind === 'string') this.countText(token);
      // Whatever it is, a provider may fetch what it links to.
      return kind === 'object' || kind === 'array' ? 'unknown part' : 'elsewhere';
    }
    if (member !== 'audio' && kind !== 'null') {
      if (this.#isImage) this.size.images++;
      else this.#link();
      this.#file = 'unknown';
    }
    if (kind === 'object' && (member === 'link' || member === 'audio' || member === 'file')) return member;
    if (kind === 'string') {
      if (member === 'link' && isUrl(token)) this.#address(token);
      else this.countText(token);
    }
    return 'elsewhere';
  }

  /** A file somewhere else, of any size. */
  #link(): void {
    this.size.files++;
    this.size.linkedFiles++;
  }

  /** A file's ID counts, whatever stands beside it. */
  #refer(): void {
    if (this.#file === 'here') this.size.linkedFiles++;
    this.#file = 'elsewhere';
  }

  /** The URL of a medium that was counted as a link, or as an image: what it holds itself is no link. */
  #address(token: JsonToken): void {
    const head = decodedHeadOf(token);
    if (!/^data:/i.test(head)) return;
    if (this.#isImage) {
      if (!/^data:(application|audio|text|video)\//i.test(head)) return;
      this.size.images--;
      this.size.files++;
      this.#isImage = false;
      this.#file = 'here';
    } else if (this.#file === 'unknown') {
      this.size.linkedFiles--;
      this.#file = 'here';
    }
    this.size.fileBytes += token.asciiChars + token.nonAsciiChars;
  }
}

function bytesOfBase64({ asciiChars, nonAsciiChars }: JsonToken): number {
  return Math.floor(((asciiChars + nonAsciiChars) * 3) / 4);
}

function isUrl(token: JsonToken): boolean {
  return /^(data|https?):/i.test(headOf(token, 6));
}

/** Where something can be fetched: `https:` and the like, or any scheme with two slashes, as Qwen's `oss://`. */
function isAddress(token: JsonToken): boolean {
  // Blanks before a URL are passed by those who fetch it, however many there are.
  const head = decodedHeadOf(token).trimStart();
  if (head === '') return token.to - token.from > HEAD_BYTES;
  return /^(?:(?:https?|gs|s3|ftp|file):|[a-z][\w+.-]{0,20}:\/\/)/i.test(head);
}

const HEAD_BYTES = 240;

/** How a string begins: its first forty characters at least, also where they are escaped. */
function decodedHeadOf(token: JsonToken): string {
  return headOf(token, HEAD_BYTES)
    .replaceAll(/\\u([\da-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll(/\\[fnrt]/g, ' ')
    .replaceAll('\\/', '/');
}
