import type { ChatRequest } from './chat-request.ts';

export type Language = 'curl' | 'python' | 'typescript';

const PACKAGE = `'openai'`;

/** A request as a program that streams its answer. The API key is read from the environment: `API_KEY`. */
export function snippetOf(language: Language, baseURL: string, request: ChatRequest): string {
  return SNIPPETS[language](baseURL, request);
}

const SNIPPETS: Readonly<Record<Language, (baseURL: string, request: ChatRequest) => string>> = {
  curl: (baseURL, request) => {
    const body = JSON.stringify({ ...request, stream: true }, undefined, 2);
    return `curl -N ${quoted(`${baseURL}/chat/completions`)} \\
  -H "Authorization: Bearer $API_KEY" \\
  -H "Content-Type: application/json" \\
  -d ${quoted(body)}`;
  },
  python: (baseURL, request) => {
    const args = Object.entries(request).map(([name, value]) => `    ${name}=${indented(value)},`);
    return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(baseURL)}, api_key=os.environ["API_KEY"])
stream = client.chat.completions.create(
${args.join('\n')}
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)`;
  },
  typescript: (baseURL, request) => {
    const args = Object.entries(request).map(([name, value]) => `  ${name}: ${indented(value, 2)},`);
    return `import OpenAI from ${PACKAGE};

const client = new OpenAI({ baseURL: ${JSON.stringify(baseURL)}, apiKey: process.env.API_KEY });
const stream = await client.chat.completions.create({
${args.join('\n')}
  stream: true,
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta.content ?? '');
}`;
  },
};

/** A value of strings and numbers is the same in JSON, Python and TypeScript. */
function indented(value: unknown, indent = 4): string {
  return JSON.stringify(value, undefined, indent).replaceAll('\n', `\n${' '.repeat(indent)}`);
}

/** As one word of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
