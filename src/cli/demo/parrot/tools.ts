import { randomUUID } from 'node:crypto';
import { ParrotError } from './errors.ts';
import { instanceOf, isObject } from './json-schema.ts';
import type { ChatRequest, Tool } from './wire.ts';
import { plain, Words } from './words.ts';

/** A tool that the parrot calls. */
export interface ChosenCall {
  readonly id: string;
  readonly name: string;
  /** JSON that the tool's parameters accept. */
  readonly arguments: string;
}

/**
 * Decides which tools to call, and with what.
 *
 * Left to choose (`auto`), the parrot calls each tool that the message mentions by
 * a word of its name or of a parameter, unless a tool has spoken last.
 *
 * @throws {ParrotError} if `tool_choice` names a tool that isn't there
 */
export function chooseToolCalls(params: ChatRequest, words: Words): ChosenCall[] {
  const tools = (params.tools ?? []).filter((tool) => tool.type === 'function');
  const called = choose(params, tools, words);
  const calls = params.parallel_tool_calls === false ? called.slice(0, 1) : called;
  return calls.map((tool) => ({
    id: `call_${randomUUID().replaceAll('-', '').slice(0, 24)}`,
    name: tool.function.name,
    arguments: JSON.stringify(
      instanceOf({ type: 'object', ...tool.function.parameters }, new Words(words.text)),
    ),
  }));
}

function choose(params: ChatRequest, tools: readonly Tool[], words: Words): readonly Tool[] {
  const choice = params.tool_choice ?? 'auto';
  if (choice === 'none' || tools.length === 0) return [];
  if (typeof choice === 'object' && choice.function) {
    const { name } = choice.function;
    const named = tools.find((tool) => tool.function.name === name);
    if (named) return [named];
    throw new ParrotError(
      400,
      `"tool_choice" names a tool that is not in "tools".`,
      'tool_choice',
      'invalid_value',
    );
  }
  const mentioned = tools.filter((tool) => isMentioned(tool, words));
  if (choice === 'required') return mentioned.length > 0 ? mentioned : tools.slice(0, 1);
  return params.messages.at(-1)?.role === 'tool' ? [] : mentioned;
}

function isMentioned(tool: Tool, words: Words): boolean {
  const properties = tool.function.parameters?.['properties'];
  const names = [tool.function.name, ...(isObject(properties) ? Object.keys(properties) : [])];
  return names.some(
    (name) =>
      words.mentions(name) ||
      plain(name)
        .split(' ')
        .some((word) => word.length > 3 && words.mentions(word)),
  );
}
