/** How providers say it: OpenAI, Azure, vLLM, Groq and OpenRouter; Anthropic; Gemini; llama.cpp and others. */
const TOO_LONG =
  /context_length_exceeded|(maximum|available) context (length|size|window)|prompt is too long|input token count[^"]{0,40}exceeds|exceed_context_size/i;

/** Statuses with which it is said. */
export function mayBeTooLong(status: number): boolean {
  return status === 400 || status === 413 || status === 422;
}

/** Whether an error's body says that the prompt is longer than this target reads: another may read more. */
export function saysTooLong(body: string): boolean {
  return TOO_LONG.test(body);
}
