import { isRecord, type Json, parseJson } from '../models/json-value.ts';

/**
 * Whether a 400 is about the key that the request was sent with, as the 401 of other providers is: LiteLLM without a
 * database, Gemini, xAI.
 *
 * Only the error's own members are read: a provider may repeat what the client has sent beside them.
 */
export function saysKeyRefused(body: string): boolean {
  const answer = parseJson(body);
  // Gemini's errors are a list.
  const document = Array.isArray(answer) ? answer[0] : answer;
  if (!isRecord(document)) return false;
  const { error } = document;
  if (!isRecord(error)) return saysIncorrectKey(error);
  const { type, message, details } = error;
  if (type === 'no_db_connection' || saysIncorrectKey(message)) return true;
  return (
    Array.isArray(details) &&
    details.some((each: Json) => isRecord(each) && each['reason'] === 'API_KEY_INVALID')
  );
}

function saysIncorrectKey(text: Json | undefined): boolean {
  return typeof text === 'string' && text.startsWith('Incorrect API key provided');
}
