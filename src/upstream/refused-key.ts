/**
 * How providers say it with a 400: LiteLLM without a database; Gemini; xAI.
 *
 * The quotes are part of it: what a client has said stands inside of a JSON string, where quotes are escaped.
 */
const REFUSED =
  /"type"\s*:\s*"no_db_connection"|"reason"\s*:\s*"API_KEY_INVALID"|"(error|message)"\s*:\s*"Incorrect API key provided/;

/** Whether a 400 is about the key that the request was sent with, as the 401 of other providers is. */
export function saysKeyRefused(body: string): boolean {
  return REFUSED.test(body);
}
