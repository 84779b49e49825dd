/** What the playground asks with; numbers as they are typed, and empty for the model's own. */
export interface Settings {
  readonly model: string;
  readonly system: string;
  readonly temperature: string;
  readonly maxTokens: string;
}

export interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** The body of a request, without what makes it a stream. */
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly temperature?: number;
  readonly max_tokens?: number;
}

export function chatRequest(settings: Settings, messages: readonly Message[]): ChatRequest {
  const { model, system, temperature, maxTokens } = settings;
  return {
    model,
    messages: system.trim() === '' ? messages : [{ role: 'system', content: system }, ...messages],
    ...(temperature !== '' && { temperature: Number(temperature) }),
    ...(maxTokens !== '' && { max_tokens: Number(maxTokens) }),
  };
}
