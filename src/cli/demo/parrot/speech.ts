import { MAX_OUTPUT_TOKENS, mediaOf, textOf } from './request.ts';
import type { Message } from './wire.ts';
import { plain } from './words.ts';

const CRIES = ['Squawk!', 'Rraaark!', 'Ahoy!', 'Kraa, kraa!'];

/** What the parrot goes on with when it is asked for more; each verse is said about one word. */
const VERSES: readonly ((word: string) => string)[] = [
  (word) => `I learned “${word}” from a sailor, who had it from the sea.`,
  (word) => `Say “${word}” slowly and you can hear the rain in it.`,
  (word) => `On Tuesdays I whisper “${word}” to the cat, and the cat pretends to sleep.`,
  (word) => `There is no seed as good as “${word}”, though I have tried them all.`,
  (word) => `My grandmother said “${word}” only once, and the whole jungle went quiet.`,
  (word) => `If they ever teach the moon to talk, “${word}” should be its first word.`,
  (word) => `I hung “${word}” in my cage, just beside the mirror, where it looks like two.`,
  (word) => `A pirate once offered me gold for “${word}”; I took the gold and kept it.`,
];

/** Words that a question for more asks for, when it doesn't say how many. */
const LONG_ANSWER = 150;
const MAX_ECHO = 30;
const MAX_WORD_LENGTH = 100;

/**
 * Answers the last message: repeats it, remarks on it, and goes on if asked to.
 *
 * The same messages are always answered in the same words.
 *
 * @param index - the choice, each of which begins and remarks in its own way
 */
export function speak(messages: readonly Message[], index: number): string {
  const last = messages.at(-1);
  if (last?.role === 'tool') return speakOfTools(messages, index);

  const user = messages.findLast((message) => message.role === 'user');
  const text = user ? textOf(user).trim().replace(/\s+/g, ' ') : '';
  const words = plain(text).split(' ').filter(Boolean);
  const sentences = [cry(words.length + index)];
  if (words.length > 0) {
    const favourite = words.toSorted((a, b) => b.length - a.length)[index % words.length] ?? '';
    sentences.push(
      `“${echo(text)}”, you say, and I say it back.`,
      words.length === 1
        ? 'One word, and a fine one.'
        : `That is ${words.length} words, and I kept every one.`,
      `The one I like best is “${favourite}”: ${favourite}, ${favourite}, ${favourite}!`,
    );
  } else {
    sentences.push('You said nothing at all, and that is the hardest thing to repeat.');
  }
  const media = user ? mediaOf(user) : [];
  if (media.length > 0) sentences.push(remarkOn(media));

  const wanted = wordsWanted(text);
  let count = countWords(sentences.join(' '));
  for (let verse = index; count < wanted; verse++) {
    const said = words[verse % words.length]?.slice(0, MAX_WORD_LENGTH) ?? 'silence';
    const sentence = VERSES[verse % VERSES.length]?.(said) ?? '';
    count += countWords(sentence);
    sentences.push(sentence);
  }
  return sentences.join(' ');
}

/** What the tools answered to the parrot's last calls, each quoted. */
function speakOfTools(messages: readonly Message[], index: number): string {
  const calls = messages.flatMap((message) => (message.role === 'assistant' && message.tool_calls) || []);
  const from = messages.findLastIndex((message) => message.role !== 'tool') + 1;
  const quotes = messages.slice(from).map((message) => {
    const id = message.tool_call_id;
    const call = calls.find((each) => each.id === id);
    const name = call?.function.name ?? 'The tool';
    return `${name} tells me: ${textOf(message)}.`;
  });
  return [cry(quotes.length + index), ...quotes, 'I only repeat it, but I repeat it well.'].join(' ');
}

function wordsWanted(text: string): number {
  const number = /(\d{1,6})\s{1,3}words/i.exec(text)?.[1];
  // Each word is a token at least.
  if (number) return Math.min(Number(number), MAX_OUTPUT_TOKENS);
  return /\b(long|longer|more|story|poem|essay|go on)\b/i.test(text) ? LONG_ANSWER : 0;
}

function remarkOn(media: readonly string[]): string {
  const count = (type: string) => media.filter((each) => each === type).length;
  const images = count('image_url');
  const recordings = count('input_audio');
  const others = media.length - images - recordings;
  const remarks = [
    images > 0 && `I looked at ${plural(images, 'image')}`,
    recordings > 0 && `I listened to ${plural(recordings, 'recording')}`,
    others > 0 && `I leafed through ${plural(others, 'file')}`,
  ].filter((remark) => remark !== false);
  return `${remarks.join(' and ')}, with my head on one side.`;
}

function cry(nth: number): string {
  return CRIES[nth % CRIES.length] ?? '';
}

function echo(text: string): string {
  const words = text.split(' ');
  return words.length > MAX_ECHO ? `${words.slice(0, MAX_ECHO).join(' ')} …` : text;
}

function countWords(text: string): number {
  return text.split(' ').length;
}

function plural(count: number, noun: string): string {
  return count === 1 ? `one ${noun}` : `${count} ${noun}s`;
}
