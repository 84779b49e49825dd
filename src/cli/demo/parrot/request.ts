import { ParrotError } from './errors.ts';
import { isObject } from './json-schema.ts';
import { countTokens } from './tokens.ts';
import type { ChatRequest, Message } from './wire.ts';

export const MODEL = 'parrot-1';
export const CONTEXT_WINDOW = 32_768;
export const MAX_OUTPUT_TOKENS = 4_096;

/** What OpenAI counts for a small image; a recording or a file counts the same here. */
const MEDIA_TOKENS = 85;
/** What the role and the seams of a message count. */
const MESSAGE_TOKENS = 3;

/** @throws {ParrotError} as OpenAI would answer */
export function readRequest(json: string): ChatRequest {
  const body = parse(json);
  check(body);
  return body;
}

/** Checks as much of a request as the parrot reads; what it doesn't know, it ignores. */
function check(body: unknown): asserts body is ChatRequest {
  if (!isObject(body)) throw new ParrotError(400, 'The request body must be a JSON object.');

  const { model, messages, tools, stop, response_format: format } = body;
  if (typeof model !== 'string') throw missing('model');
  if (model !== MODEL) {
    throw new ParrotError(404, `The model "${model}" does not exist.`, 'model', 'model_not_found');
  }
  if (messages === undefined) throw missing('messages');
  if (!Array.isArray(messages) || messages.length === 0 || !messages.every(isMessage)) {
    throw invalid('messages', 'a list of at least one message, each with a role');
  }
  if (tools != null && (!Array.isArray(tools) || !tools.every(isTool))) {
    throw invalid('tools', 'a list of functions, each with a name');
  }
  if (![stop ?? ''].flat().every((sequence) => typeof sequence === 'string')) {
    throw invalid('stop', 'a string or a list of strings');
  }
  if (isObject(format) && format['type'] === 'json_schema' && !isObject(format['json_schema'])) {
    throw missing('response_format.json_schema');
  }
  expectInteger(body, 'n', 128);
  expectInteger(body, 'max_tokens');
  expectInteger(body, 'max_completion_tokens');
}

/** Tokens of everything that the parrot is given to read: messages, tools and the schema of its answer. */
export function countPromptTokens(params: ChatRequest): number {
  let tokens = MESSAGE_TOKENS; // the answer's own seams
  for (const message of params.messages) {
    tokens += MESSAGE_TOKENS + countTokens(textOf(message)) + MEDIA_TOKENS * mediaOf(message).length;
    if (message.tool_calls !== undefined) tokens += countTokens(JSON.stringify(message.tool_calls));
  }
  if (params.tools?.length) tokens += countTokens(JSON.stringify(params.tools));
  if (params.response_format) tokens += countTokens(JSON.stringify(params.response_format));
  return tokens;
}

export function textOf(message: Message): string {
  const { content } = message;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (part.type === 'text' ? (part.text ?? '') : '')).join(' ');
}

/** The types of a message's parts other than text: `image_url`, `input_audio`, `file`. */
export function mediaOf(message: Message): string[] {
  if (!Array.isArray(message.content)) return [];
  return message.content.map((part) => part.type).filter((type) => type !== 'text' && type !== 'refusal');
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw new ParrotError(400, 'The request body is not valid JSON.', null, 'invalid_json');
  }
}

function isMessage(value: unknown): boolean {
  if (!isObject(value) || typeof value['role'] !== 'string') return false;
  const { content } = value;
  return (
    content == null || typeof content === 'string' || (Array.isArray(content) && content.every(isObject))
  );
}

function isTool(value: unknown): boolean {
  if (!isObject(value)) return false;
  return (
    value['type'] !== 'function' ||
    (isObject(value['function']) && typeof value['function']['name'] === 'string')
  );
}

function expectInteger(body: Record<string, unknown>, param: string, most = Infinity): void {
  const value = body[param] ?? 1;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= most) return;
  throw invalid(param, most === Infinity ? 'an integer of at least 1' : `an integer from 1 to ${most}`);
}

function missing(param: string): ParrotError {
  return new ParrotError(400, `Missing required parameter: "${param}".`, param, 'missing_required_parameter');
}

function invalid(param: string, wanted: string): ParrotError {
  return new ParrotError(400, `"${param}" must be ${wanted}.`, param, 'invalid_value');
}
