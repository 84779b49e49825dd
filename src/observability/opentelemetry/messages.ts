/** A part of a message in the schema of the GenAI conventions; a type without a name there keeps its own. */
type Part = { readonly type: string } & Readonly<Record<string, unknown>>;

interface InputMessage {
  readonly role: string;
  readonly parts: readonly Part[];
  readonly name?: string;
}

interface OutputMessage extends InputMessage {
  readonly finish_reason: string;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * The messages of a request.
 * @throws if the body is not JSON
 */
export function inputMessages(body: string): readonly InputMessage[] {
  return listOf(fieldsOf(JSON.parse(body))['messages']).map((message) => {
    const fields = fieldsOf(message);
    const { role, name } = fields;
    const isResult = role === 'tool' || role === 'function';
    return {
      role: stringOr(role, 'user'),
      parts: isResult ? [toolResult(fields)] : partsOf(fields),
      ...(typeof name === 'string' && { name }),
    };
  });
}

/** The choices of an answer, or of a stream up to where it broke off; none for an error.
 *
 * @throws if a part is not JSON
 */
export function outputMessages(body: string): readonly OutputMessage[] {
  const choices = new Map<number, ChoiceBuilder>();
  for (const answer of body.trimStart().startsWith('{') ? [JSON.parse(body)] : eventsOf(body)) {
    for (const [position, found] of listOf(fieldsOf(answer)['choices']).entries()) {
      const { index, message, delta, finish_reason: finishReason } = fieldsOf(found);
      const at = typeof index === 'number' ? index : position;
      const choice = choices.get(at) ?? new ChoiceBuilder();
      choices.set(at, choice);
      choice.add(fieldsOf(message ?? delta));
      if (typeof finishReason === 'string') choice.finishReason = finishReason;
    }
  }
  return [...choices].sort(([one], [other]) => one - other).map(([, choice]) => choice.message());
}

/** Joins the chunks of a choice. */
class ChoiceBuilder {
  finishReason: string | undefined;
  #role = 'assistant';
  readonly #parts: { type: string; content: string }[] = [];
  readonly #others: Part[] = [];
  readonly #calls = new Map<number, { id?: string; name: string; arguments: string }>();

  add(fields: Fields): void {
    this.#role = stringOr(fields['role'], this.#role);
    this.#addText('reasoning', fields['reasoning_content'] ?? fields['reasoning']);
    const { content } = fields;
    if (typeof content === 'string') this.#addText('text', content);
    else {
      for (const part of listOf(content).map(partOf)) {
        if (typeof part['content'] === 'string' && TEXTS.includes(part.type))
          this.#addText(part.type, part['content']);
        else this.#others.push(part);
      }
    }
    this.#addText('refusal', fields['refusal']);
    for (const [position, call] of callsOf(fields).entries()) this.#addCall(fieldsOf(call), position);
  }

  message(): OutputMessage {
    const calls = [...this.#calls].sort(([one], [other]) => one - other).map(([, call]) => toolCall(call));
    return {
      role: this.#role,
      parts: [...this.#parts, ...this.#others, ...calls],
      finish_reason: conventionalReason(this.finishReason),
    };
  }

  #addText(type: string, chunk: unknown): void {
    if (typeof chunk !== 'string' || chunk === '') return;
    const last = this.#parts.at(-1);
    if (last?.type === type) last.content += chunk;
    else this.#parts.push({ type, content: chunk });
  }

  #addCall({ index, id, function: called }: Fields, position: number): void {
    const at = typeof index === 'number' ? index : position;
    const { name, arguments: given } = fieldsOf(called);
    const call = this.#calls.get(at) ?? { name: '', arguments: '' };
    this.#calls.set(at, call);
    if (typeof id === 'string' && id !== '') call.id = id;
    call.name += stringOr(name, '');
    call.arguments += typeof given === 'object' ? JSON.stringify(given) : stringOr(given, '');
  }
}

/** Parts that stream in chunks. */
const TEXTS: readonly string[] = ['text', 'reasoning', 'refusal'];

/** The finish reason in the conventions; they require one, even for an answer that broke off. */
function conventionalReason(reason: string | undefined): string {
  if (reason === 'tool_calls' || reason === 'function_call') return 'tool_call';
  return reason ?? 'error';
}

/** The data of a stream's complete events, one line each. */
function eventsOf(stream: string): unknown[] {
  const text = stream.replaceAll(/\r\n?/g, '\n');
  return text
    .slice(0, Math.max(0, text.lastIndexOf('\n\n')))
    .split('\n')
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length).trim())
    .filter((data) => data !== '' && data !== '[DONE]')
    .map((data): unknown => JSON.parse(data));
}

function partsOf(message: Fields): Part[] {
  const { content, refusal } = message;
  return [
    ...textPart('reasoning', message['reasoning_content'] ?? message['reasoning']),
    ...(typeof content === 'string' ? textPart('text', content) : listOf(content).map(partOf)),
    ...textPart('refusal', refusal),
    ...callsOf(message).map((call) => {
      const { id, function: called } = fieldsOf(call);
      const { name, arguments: given } = fieldsOf(called);
      return toolCall({ id, name, arguments: given });
    }),
  ];
}

function textPart(type: string, content: unknown): Part[] {
  return typeof content === 'string' && content !== '' ? [{ type, content }] : [];
}

/** `tool_calls`, or the older `function_call`. */
function callsOf({ tool_calls: calls, function_call: called }: Fields): readonly unknown[] {
  return called === undefined || called === null ? listOf(calls) : [{ function: called }];
}

function toolCall({ id, name, arguments: given }: Fields): Part {
  return { type: 'tool_call', ...(typeof id === 'string' && { id }), name, arguments: parsed(given) };
}

function toolResult({ tool_call_id: id, content }: Fields): Part {
  return {
    type: 'tool_call_response',
    ...(typeof id === 'string' && { id }),
    response: Array.isArray(content) ? content.map(partOf) : content,
  };
}

/** An entry of `content` in the schema of the conventions. */
function partOf(entry: unknown): Part {
  const fields = fieldsOf(entry);
  const type = stringOr(fields['type'], 'unknown');
  switch (type) {
    case 'text':
      return { type, content: fields['text'] };
    case 'refusal':
      return { type, content: fields['refusal'] };
    case 'image_url':
      return imagePart(fieldsOf(fields['image_url'])['url']);
    case 'input_audio': {
      const { data, format } = fieldsOf(fields['input_audio']);
      return { type: 'blob', modality: 'audio', mime_type: `audio/${String(format)}`, content: data };
    }
    case 'file': {
      const { file_id: id } = fieldsOf(fields['file']);
      return typeof id === 'string' ? { type, modality: 'document', file_id: id } : { ...fields, type };
    }
    default:
      return { ...fields, type };
  }
}

function imagePart(url: unknown): Part {
  const [, mimeType, content] = /^data:([^;,]+);base64,(.*)$/s.exec(stringOr(url, '')) ?? [];
  if (content !== undefined) return { type: 'blob', modality: 'image', mime_type: mimeType, content };
  return { type: 'uri', modality: 'image', uri: url };
}

/** Arguments are usually JSON in a string. */
function parsed(given: unknown): unknown {
  if (typeof given !== 'string') return given;
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function stringOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}
