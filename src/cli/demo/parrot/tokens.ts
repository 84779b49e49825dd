/** Up to four letters or digits, or other signs, with the blank before them; else up to four blanks. */
const TOKEN = /\s?[\p{L}\p{M}\p{N}]{1,4}|\s?[^\s\p{L}\p{M}\p{N}]{1,4}|\s{1,4}/gu;

/**
 * Cuts a text into tokens; joined, they are the text again.
 *
 * The one tokenizer of the parrot: prompts, answers and `max_tokens` are all counted with it.
 */
export function tokenize(text: string): string[] {
  return text.match(TOKEN) ?? [];
}

export function countTokens(text: string): number {
  return tokenize(text).length;
}
