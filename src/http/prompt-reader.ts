import type { PromptSize } from '../metering/estimate.ts';
import { tokenHead, type JsonKind, type JsonToken, tokenText } from '../json/token.ts';
import { KeyMatcher } from '../json/key-matcher.ts';
import type { AskedFeatures } from './asked-features.ts';

/** The part of a request that directly contains a value; it decides how the value counts. */
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
    // Of other providers; they count as files.
    audio_url: 'link',
    document_url: 'link',
    file_url: 'link',
    pdf_url: 'link',
    video_url: 'link',
    // Qwen: a video as a list of images.
    video: 'frames',
  }),
  link: new KeyMatcher<PromptMember>({ url: 'url', file_id: 'file_id' }),
  'unknown part': new KeyMatcher<PromptMember>({ text: 'text', file_id: 'file_id' }),
  audio: new KeyMatcher<PromptMember>({ data: 'data' }),
  file: new KeyMatcher<PromptMember>({ file_data: 'file_data', file_id: 'file_id', file_url: 'reference' }),
};

/** Types of parts that are text, or media that are recognised by their members. Other types may mean anything to a provider. */
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

/** Settings of cache writes, in a message, a part, a tool or the request, with the `ttl`s that cost nothing extra. */
const CACHE_SETTINGS = new KeyMatcher<{ readonly name: string; readonly cheap: readonly string[] }>({
  cache_control: { name: 'cache_control', cheap: ['5m'] },
  // Moonshot; OpenAI, with 30m only.
  prompt_cache_options: { name: 'prompt_cache_options', cheap: ['5m', '30m'] },
});
type CacheSettings = NonNullable<ReturnType<(typeof CACHE_SETTINGS)['find']>>['role'];
const TTL = new KeyMatcher({ ttl: true });

const NO_SCHEMA: { readonly start: number; readonly spaces: number; readonly stringBytes: number } = {
  start: 0,
  spaces: 0,
  stringBytes: 0,
};

/**
 * Measures the prompt of a request, value by value.
 *
 * Everything that can reach the model as text is counted: all strings and keys, and in schemas (`tools` and the like)
 * everything but white space. Media count as media only where providers look for them: at
 * `messages[].content[].image_url.url` a `data:` URL is an image, anywhere else it is text.
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

  /** The first settings that want a cache write kept for longer than costs nothing extra; undefined if none do. */
  hourWrites: string | undefined;
  /** Of the last key, if that was of cache settings; and those that were begun last. */
  #settingsOfKey: CacheSettings | undefined;
  #settings: CacheSettings | undefined;
  /** The last key was `ttl`, inside cache settings. */
  #isTtl = false;
  readonly #asked: AskedFeatures;
  /** The last key, if it is known in its position. */
  #member: PromptMember | undefined;
  /** A content part that some providers bill by page or by call; '' for any other. */
  #billedPart: 'file' | 'document_url' | '' = '';
  #isImage = false;
  /** Whether the current file is in the request itself, as far as its members were read. */
  #file: 'unknown' | 'here' | 'elsewhere' = 'unknown';
  /** The counts at the beginning of the current schema. */
  #schema = NO_SCHEMA;

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

  /** The last key, if it is known in its position. */
  get member(): PromptMember | undefined {
    return this.#member;
  }

  /** Notes whether the key is that of cache settings. */
  cacheKey(token: JsonToken): void {
    this.#settingsOfKey = CACHE_SETTINGS.find(token)?.role;
  }

  /** Returns the position of the value's members or elements. */
  value(within: PromptPosition, kind: JsonKind, token: JsonToken): PromptPosition {
    const settings = this.#settingsOfKey;
    // A key has one value: further elements of a list have no key.
    this.#settingsOfKey = undefined;
    if (settings && kind === 'object') {
      this.#settings = settings;
      return 'cache control';
    }
    switch (within) {
      case 'cache control':
        if (this.#isTtl && kind !== 'null' && !this.#settings?.cheap.includes(tokenText(token) ?? ''))
          this.hourWrites ??= this.#settings?.name;
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
        // Qwen fetches such a URL.
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

  /** Begins a value of which everything is prompt, not only the strings; `endSchema` ends it. */
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

  /** A member of a content part. Some providers accept a bare URL in place of an `image_url`, `file` or similar object. */
  #memberOfPart(member: PromptMember | undefined, kind: JsonKind, token: JsonToken): PromptPosition {
    if (member === 'frames' && kind === 'array') return 'frames';
    if (member === 'type') {
      // The hold treats a part of unknown type as a linked file: the provider may fetch or search.
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
      // An unknown object may contain a URL that the provider fetches.
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

  /** Moonshot refers to stored prompts by messages with the role `cache`. */
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

  /** Qwen replaces a text that begins with `fileid:` by the files that it names. */
  #checkText(token: JsonToken): void {
    const first = token.bytes[token.from] ?? 0;
    const mayBegin = first <= 0x20 || first === 0x5c || (first | 0x20) === 0x66; // blank, backslash, f
    if (mayBegin && /^\s*fileid:/i.test(decodedHeadOf(token))) this.#noteAccountFile();
  }

  #checkUrl(token: JsonToken): void {
    if (mayNameAccountFile(token) && ACCOUNT_FILE.test(decodedHeadOf(token))) this.#noteAccountFile();
  }

  /** A reference to data of the operator's account at the provider: files, buckets, stored prompts. */
  #noteAccountFile(): void {
    this.#asked.add('accountFiles', 'account file', `messages[${this.size.messages - 1}]`);
  }

  /** A file outside the request, of any size. */
  #countLinkedFile(): void {
    this.size.files++;
    this.size.linkedFiles++;
  }

  /** A file ID or URL counts as a linked file even if the part also has the file's data. */
  #countFileReference(): void {
    if (this.#file === 'here') this.size.linkedFiles++;
    this.#file = 'elsewhere';
  }

  /** Corrects the count of a linked file or image whose URL is a `data:` URL: its content is in the request. */
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

/** URLs that a provider reads with the access rights of the requesting account: Moonshot, Google, Bedrock, Qwen. */
const ACCOUNT_FILE = /^\s*(?:(?:ms|gs|s3|oss|fileid):|https?:\/\/generativelanguage\.googleapis\.com\/)/i;

/** A fast check before the regular expression: most URLs are `data:` URLs or have other hosts. */
function mayNameAccountFile({ bytes, from, escaped }: JsonToken): boolean {
  const first = (bytes[from] ?? 0) | 0x20;
  if (escaped || first === 0x20) return true;
  // The host after `http://` or `https://`.
  if (first === 0x68)
    return ((bytes[from + 7] ?? 0) | 0x20) === 0x67 || ((bytes[from + 8] ?? 0) | 0x20) === 0x67;
  return first === 0x66 || first === 0x67 || first === 0x6d || first === 0x6f || first === 0x73; // f, g, m, o, s
}

/** Whether a provider may fetch it: `https:` and the like, or any scheme with two slashes, such as Qwen's `oss://`. */
function isFetchableUrl(token: JsonToken): boolean {
  // Providers skip any number of blanks before a URL.
  const head = decodedHeadOf(token).trimStart();
  if (head === '') return token.to - token.from > HEAD_BYTES;
  return /^(?:(?:https?|gs|s3|ftp|file):|[a-z][\w+.-]{0,20}:\/\/)/i.test(head);
}

const HEAD_BYTES = 240;

/** The beginning of a string: at least its first forty characters, with escapes decoded. */
function decodedHeadOf(token: JsonToken): string {
  return tokenHead(token, HEAD_BYTES)
    .replaceAll(/\\u([\da-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll(/\\[fnrt]/g, ' ')
    .replaceAll('\\/', '/');
}
