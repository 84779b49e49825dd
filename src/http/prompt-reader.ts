import type { PromptSize } from '../metering/estimate.ts';
import { tokenHead, type JsonKind, type JsonToken, tokenText } from '../json/token.ts';
import { KeyMatcher } from '../json/key-matcher.ts';
import type { AskedFeatures } from './asked-features.ts';

/** What of a request a value is directly in; the prompt is counted by it. */
export type PromptPosition =
  | 'messages'
  | 'message'
  | 'message audio'
  | 'content'
  | 'part'
  | 'link'
  | 'audio'
  | 'file'
  | 'frames'
  | 'unknown part'
  | 'cache control'
  | 'schema'
  | 'elsewhere';

type PromptMember =
  | 'type'
  | 'content'
  | 'text'
  | 'link'
  | 'audio'
  | 'file'
  | 'frames'
  | 'url'
  | 'data'
  | 'file_data'
  | 'reference'
  | 'file_id'
  | 'role'
  | 'message audio';

const KEYS: Readonly<Partial<Record<PromptPosition, KeyMatcher<PromptMember>>>> = {
  message: new KeyMatcher<PromptMember>({ content: 'content', role: 'role', audio: 'message audio' }),
  'message audio': new KeyMatcher<PromptMember>({ id: 'file_id' }),
  part: new KeyMatcher<PromptMember>({
    type: 'type',
    image_url: 'link',
    input_audio: 'audio',
    file: 'file',
    file_id: 'file_id',
    text: 'text',
    // Of other providers; they weigh as much as files do.
    audio_url: 'link',
    document_url: 'link',
    file_url: 'link',
    pdf_url: 'link',
    video_url: 'link',
    // Of Qwen: a video as a list of images.
    video: 'frames',
  }),
  link: new KeyMatcher<PromptMember>({ url: 'url', file_id: 'file_id' }),
  'unknown part': new KeyMatcher<PromptMember>({ text: 'text', file_id: 'file_id' }),
  audio: new KeyMatcher<PromptMember>({ data: 'data' }),
  file: new KeyMatcher<PromptMember>({ file_data: 'file_data', file_id: 'file_id', file_url: 'reference' }),
};

/** Types of parts that are text, or media that are found by their members. What else a provider makes of one isn't known. */
const PART_TYPES = new KeyMatcher(
  Object.fromEntries(
    (
      'text,refusal,input_text,output_text,summary_text,reasoning_text,reasoning,thinking,redacted_thinking,search_result,' +
      'tool_use,tool_call,tool-call,tool_result,tool-result,image,image_url,input_image,audio,audio_url,input_audio,' +
      'video,video_url,input_video,document,document_url,pdf_url,file,file_url,input_file'
    )
      .split(',')
      .map((name) => [name, true]),
  ),
);

/** Where it says what is to be written to a cache, in a message, a part, a tool or the request, and for how long. */
const CACHE_CONTROL = new KeyMatcher({ cache_control: true });
const TTL = new KeyMatcher({ ttl: true });

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

  /** Something is to be written to a cache for longer than five minutes. */
  hourWrites = false;
  /** The last key says what is written to a cache, or there for how long. */
  #isCacheControl = false;
  #isTtl = false;
  readonly #asked: AskedFeatures;
  /** The last key, if it means something where it is. */
  #member: PromptMember | undefined;
  /** A part of content that some providers bill by the page or by the call; '' where it is none. */
  #billedPart: 'file' | 'document_url' | '' = '';
  #isImage = false;
  /** Where the current file is, as far as its members were read. */
  #file: 'unknown' | 'here' | 'elsewhere' = 'unknown';
  /** How things stood where the current schema began. */
  #schema = { start: 0, spaces: 0, stringBytes: 0 };

  constructor(asked: AskedFeatures) {
    this.#asked = asked;
  }

  key(within: PromptPosition, token: JsonToken): void {
    this.countText(token);
    this.cacheKey(token);
    this.#isTtl = within === 'cache control' && TTL.find(token) !== undefined;
    const match = KEYS[within]?.find(token);
    this.#member = match?.role;
    if (within === 'part') {
      const name = match?.name;
      this.#billedPart = name === 'file' || name === 'document_url' ? name : '';
      this.#isImage = name === 'image_url';
    }
  }

  /** Notes whether what follows says what is to be written to a cache. */
  cacheKey(token: JsonToken): void {
    this.#isCacheControl = CACHE_CONTROL.find(token) !== undefined;
  }

  /** Where the members or elements of the value are, if it has any. */
  value(within: PromptPosition, kind: JsonKind, token: JsonToken): PromptPosition {
    const isCacheControl = this.#isCacheControl;
    // Of one value: what follows in a list has no key of its own.
    this.#isCacheControl = false;
    if (isCacheControl && kind === 'object') return 'cache control';
    switch (within) {
      case 'cache control':
        if (this.#isTtl && kind !== 'null' && tokenText(token) !== '5m') this.hourWrites = true;
        break;
      case 'messages':
        this.size.messages++;
        if (kind === 'object') return 'message';
        break;
      case 'message':
        if (kind === 'array' && this.#member === 'content') return 'content';
        if (kind === 'object' && this.#member === 'message audio') return 'message audio';
        if (kind === 'string') this.#checkMessage(token);
        break;
      case 'message audio':
        if (kind === 'string' && this.#member === 'file_id') this.#noteAccountFile();
        break;
      case 'content':
        if (kind === 'object') return 'part';
        break;
      case 'part':
        return this.#memberOfPart(this.#member, kind, token);
      case 'frames':
        if (kind !== 'string') break;
        this.size.images++;
        this.#checkUrl(token);
        if (isDataOrHttpUrl(token)) return 'elsewhere';
        break;
      case 'unknown part':
        if (kind === 'object' || kind === 'array') return 'unknown part';
        if (kind !== 'string' || this.#member === 'text') break;
        if (this.#member === 'file_id') this.#noteAccountFile();
        this.#checkUrl(token);
        if (this.#member === 'file_id' || isFetchableUrl(token)) this.#countLinkedFile();
        break;
      case 'audio':
        if (kind === 'string') this.#checkUrl(token);
        // Qwen fetches it.
        if (kind === 'string' && isFetchableUrl(token)) this.#countLinkedFile();
        else if (kind === 'string' && this.#member === 'data') {
          this.size.audioBytes += bytesOfBase64(token);
          return 'elsewhere';
        }
        break;
      case 'link':
      case 'file':
        if (kind !== 'string') break;
        if (this.#member === 'file_id') this.#noteAccountFile();
        else if (this.#member !== undefined) this.#checkUrl(token);
        if (this.#member === 'reference' || this.#member === 'file_id') this.#countFileReference();
        else if (this.#member === undefined) {
          if (isFetchableUrl(token)) this.#countFileReference();
        } else if (isDataOrHttpUrl(token)) {
          this.#countDataUrl(token);
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
  beginSchema(token: JsonToken): PromptPosition {
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
  #memberOfPart(member: PromptMember | undefined, kind: JsonKind, token: JsonToken): PromptPosition {
    if (member === 'frames' && kind === 'array') return 'frames';
    if (member === 'type') {
      // It is held for as what may be fetched, or searched for.
      if (kind !== 'null' && !(kind === 'string' && PART_TYPES.find(token))) this.#countLinkedFile();
      if (kind === 'string') this.countText(token);
      return 'elsewhere';
    }
    if (kind === 'string') {
      if (member === 'file_id') this.#noteAccountFile();
      else if (member === 'text') this.#checkText(token);
      else this.#checkUrl(token);
      if (member !== 'text' && member !== 'link' && member !== 'file' && isFetchableUrl(token))
        this.#countLinkedFile();
    }
    if (this.#billedPart !== '' && kind !== 'null') {
      this.#asked.add(this.#billedPart, 'part', `messages[${this.size.messages - 1}].content`);
    }
    if (member === undefined || member === 'text' || member === 'frames') {
      if (kind === 'string') this.countText(token);
      // Whatever it is, a provider may fetch what it links to.
      return kind === 'object' || kind === 'array' ? 'unknown part' : 'elsewhere';
    }
    if (member !== 'audio' && kind !== 'null') {
      if (this.#isImage) this.size.images++;
      else this.#countLinkedFile();
      this.#file = 'unknown';
    }
    if (kind === 'object' && (member === 'link' || member === 'audio' || member === 'file')) return member;
    if (kind === 'string') {
      if (member === 'link' && isDataOrHttpUrl(token)) this.#countDataUrl(token);
      else this.countText(token);
    }
    return 'elsewhere';
  }

  /** Moonshot keeps prompts as messages of a role of their own. */
  #checkMessage(token: JsonToken): void {
    if (this.#member === 'content') this.#checkText(token);
    else if (
      this.#member === 'role' &&
      token.asciiChars === 5 &&
      tokenText(token)?.toLowerCase() === 'cache'
    ) {
      this.#noteAccountFile();
    }
  }

  /** Qwen takes a text that begins so for the files that it names. */
  #checkText(token: JsonToken): void {
    const first = token.bytes[token.from] ?? 0;
    const mayBegin = first <= 0x20 || first === 0x5c || (first | 0x20) === 0x66; // blank, backslash, f
    if (mayBegin && /^\s*fileid:/i.test(decodedHeadOf(token))) this.#noteAccountFile();
  }

  #checkUrl(token: JsonToken): void {
    if (mayNameAccountFile(token) && ACCOUNT_FILE.test(decodedHeadOf(token))) this.#noteAccountFile();
  }

  /** What the operator's account has at the provider: files, buckets, prompts that are kept. */
  #noteAccountFile(): void {
    this.#asked.add('accountFiles', 'account file', `messages[${this.size.messages - 1}]`);
  }

  /** A file somewhere else, of any size. */
  #countLinkedFile(): void {
    this.size.files++;
    this.size.linkedFiles++;
  }

  /** A file's ID counts, whatever stands beside it. */
  #countFileReference(): void {
    if (this.#file === 'here') this.size.linkedFiles++;
    this.#file = 'elsewhere';
  }

  /** The URL of a medium that was counted as a link, or as an image: what it holds itself is no link. */
  #countDataUrl(token: JsonToken): void {
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

function isDataOrHttpUrl(token: JsonToken): boolean {
  return /^(data|https?):/i.test(tokenHead(token, 6));
}

/** Addresses that a provider reads by the rights of the account that asks: Moonshot, Google, Bedrock, Qwen. */
const ACCOUNT_FILE = /^\s*(?:(?:ms|gs|s3|oss|fileid):|https?:\/\/generativelanguage\.googleapis\.com\/)/i;

/** Quickly, whether it is worth a closer look: most are `data:` URLs, or of other hosts. */
function mayNameAccountFile({ bytes, from, escaped }: JsonToken): boolean {
  const first = (bytes[from] ?? 0) | 0x20;
  if (escaped || first === 0x20) return true;
  // The host after `http://` or `https://`.
  if (first === 0x68)
    return ((bytes[from + 7] ?? 0) | 0x20) === 0x67 || ((bytes[from + 8] ?? 0) | 0x20) === 0x67;
  return first === 0x66 || first === 0x67 || first === 0x6d || first === 0x6f || first === 0x73; // f, g, m, o, s
}

/** Where something can be fetched: `https:` and the like, or any scheme with two slashes, as Qwen's `oss://`. */
function isFetchableUrl(token: JsonToken): boolean {
  // Blanks before a URL are passed by those who fetch it, however many there are.
  const head = decodedHeadOf(token).trimStart();
  if (head === '') return token.to - token.from > HEAD_BYTES;
  return /^(?:(?:https?|gs|s3|ftp|file):|[a-z][\w+.-]{0,20}:\/\/)/i.test(head);
}

const HEAD_BYTES = 240;

/** How a string begins: its first forty characters at least, also where they are escaped. */
function decodedHeadOf(token: JsonToken): string {
  return tokenHead(token, HEAD_BYTES)
    .replaceAll(/\\u([\da-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll(/\\[fnrt]/g, ' ')
    .replaceAll('\\/', '/');
}
