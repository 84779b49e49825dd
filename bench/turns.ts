/**
 * The longest turn of the event loop for 1 MB of hostile bytes: `npm run bench:turns -- [ROUNDS] [PATTERN]`.
 *
 * The router and the bare proxy of each way to mount it take turns. The first two rounds compile and don't count.
 */
import { once } from 'node:events';
import type * as net from 'node:net';

import { answerHead, startMaliciousProvider } from '../test/attacks/malicious-provider.ts';
import { answerOn, bodyOf, headOf, startVictim, type Victim, writeAll } from '../test/attacks/victim.ts';

const BYTES = 1_000_000;
const COMPILING_ROUNDS = 2;
const rounds = COMPILING_ROUNDS + Number(process.argv[2] ?? 11);
const pattern = new RegExp(process.argv[3] ?? '');

const fill = (text: string): string => text.repeat(Math.ceil(BYTES / text.length));

const ANSWERS: Readonly<Record<string, string>> = {
  'an answer of one event': `data: {"choices":[{"index":0,"delta":{"content":"${fill('x')}"}}]}\n\n`,
  'an answer of events with a word each': fill(
    'data: {"choices":[{"index":0,"delta":{"content":"hello"}}]}\n\n',
  ),
  'an answer of events with a digit each': fill('data:1\n\n'),
  'an answer of empty events': fill('data:\n\n'),
  'an answer of events without data': fill('a\n\n'),
  'an answer of blank lines': fill('\n'),
  'an answer of comments': fill(':\n'),
  'an answer of broken events': fill('data: {x\n\n'),
  'an answer of small documents, glued together': fill(`data: ${'{}'.repeat(100)}\n\n`),
  'an answer of documents, glued together': fill(
    `data: ${'{"choices":[],"id":"0123456789abcdef"}'.repeat(50)}\n\n`,
  ),
  'an answer of events of 10,000 lines': fill(`data: {\n${'data:\n'.repeat(10_000)}data: }\n\n`),
  'an answer of usage': fill('data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'),
  'an answer of errors': fill('data: {"error":{"code":1}}\n\n'),
};

const member = (value: string): string => bodyOf(100).replace('{', `{"metadata":${value},`);
const REQUESTS: Readonly<Record<string, string>> = {
  'a request of one string': bodyOf(BYTES),
  'a request of escapes': member(`"${fill(String.raw`\n`)}"`),
  'a request of empty arrays': member(`[${fill('[],')}1]`),
  'a request of numbers': member(`[${fill('1,')}1]`),
  'a request of keys': member(`{"a":1${fill(',"a":1')}}`),
};

const COMPLETION =
  '{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],' +
  '"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}';
const COMPLETION_HEAD = answerHead(`content-length: ${COMPLETION.length}`).replace(
  'text/event-stream',
  'application/json',
);

const provider = await startMaliciousProvider();

/** Answers a request once its last bytes have come: with its length, or as the last chunk of HTTP. */
async function answerWhole(upstream: net.Socket): Promise<void> {
  let end = '';
  while (!/"}]}(\r\n0\r\n\r\n)?$/.test(end)) {
    const [bytes]: Buffer[] = await once(upstream, 'data');
    end = (end + bytes?.subarray(-20).toString('latin1')).slice(-20);
  }
  upstream.end(COMPLETION_HEAD + COMPLETION);
}

async function answerStream(upstream: net.Socket, answer: string): Promise<void> {
  upstream.resume();
  await writeAll(upstream, [answerHead(), answer, 'data: [DONE]\n\n']);
  upstream.end();
}

/** @returns the processor time of the longest turn, in ms */
async function longestTurn(victim: Victim, what: string): Promise<number> {
  const answer = ANSWERS[what];
  provider.script = answer ? (upstream) => answerStream(upstream, answer) : answerWhole;
  const body = REQUESTS[what] ?? bodyOf(100).replace('{', '{"stream":true,');
  const socket = victim.connect();
  await once(socket, 'connect');
  await victim.taken('watch');
  const answered = answerOn(socket);
  await writeAll(socket, [
    headOf(victim.keys[0] ?? '', [`content-length: ${Buffer.byteLength(body)}`]) + body,
  ]);
  const { status, text } = await answered;
  if (status !== 200 || text.length < (answer?.length ?? 0)) throw new Error(`${what}: ${status}, cut`);
  const { longestTurnMs } = await victim.taken();
  socket.destroy();
  return longestTurnMs;
}

const KINDS = ['bare', 'node', 'bare-web', 'web'] as const;
const router = { maxBodyBytes: 4_000_000 };
const victims = await Promise.all(
  KINDS.map((kind) => startVictim({ kind, provider: provider.baseURL, router }, 512)),
);
const table: Record<string, Record<string, string>> = {};
for (const what of [...Object.keys(REQUESTS), ...Object.keys(ANSWERS)].filter((name) => pattern.test(name))) {
  const turns = KINDS.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, victim] of victims.entries()) {
      const ms = await longestTurn(victim, what);
      if (round >= COMPILING_ROUNDS) turns[i]?.push(ms);
    }
  }
  const medians = turns.map((list) => list.toSorted((a, b) => a - b)[list.length >> 1] ?? 0);
  table[what] = Object.fromEntries(KINDS.map((kind, i) => [kind, `${medians[i]?.toFixed(2)} ms`]));
}
console.table(table);
await Promise.all(victims.map((victim) => victim.stop()));
await provider.close();
