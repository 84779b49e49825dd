/** How providers say it: OpenRouter, its guardrails, and xAI. */
const REFUSED =
  /content[ _]policy|content[ _]filter|flagged_input|input was flagged|requires moderation|violates usage guidelines|prompt injection/i;

/** Whether a 403 is about what the request says, which is its client's matter, and not about the account that asked. */
export function saysContentRefused(body: string): boolean {
  return REFUSED.test(body);
}
