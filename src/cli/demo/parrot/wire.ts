/** The members of OpenAI's Chat Completions that the parrot reads and writes. */
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
  readonly n?: number | null;
  readonly max_tokens?: number | null;
  readonly max_completion_tokens?: number | null;
  readonly stop?: string | readonly string[] | null;
  readonly tools?: readonly Tool[];
  readonly tool_choice?: 'none' | 'auto' | 'required' | NamedTool;
  readonly parallel_tool_calls?: boolean;
  readonly response_format?: ResponseFormat;
}

export interface Message {
  readonly role: string;
  readonly content?: string | readonly ContentPart[] | null;
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
}

interface ContentPart {
  readonly type: string;
  readonly text?: string;
}

type ResponseFormat =
  | { readonly type: 'text' | 'json_object' }
  | { readonly type: 'json_schema'; readonly json_schema: { readonly schema?: unknown } };

interface NamedTool {
  readonly type: string;
  readonly function?: { readonly name: string };
}

export interface Tool {
  readonly type: string;
  readonly function: { readonly name: string; readonly parameters?: Readonly<Record<string, unknown>> };
}

/** A call of a tool, as a whole. */
export interface ToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; arguments: string };
}

/** What one chunk adds to a choice. */
export interface Delta {
  readonly role?: 'assistant';
  readonly content?: string;
  readonly refusal?: null;
  readonly tool_calls?: readonly ToolCallDelta[];
}

interface ToolCallDelta {
  readonly index: number;
  readonly id?: string;
  readonly type?: 'function';
  readonly function?: { readonly name?: string; readonly arguments?: string };
}

export type FinishReason = 'stop' | 'length' | 'tool_calls';

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  readonly completion_tokens_details: { readonly reasoning_tokens: number };
}
