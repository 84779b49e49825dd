/** Prints a line of JSON for each check, and goes on where one fails. */
import assert from 'node:assert/strict';
import { inspect } from 'node:util';

export const { BASE_URL, API_KEY, EMPTY_KEY, MODEL, CONTINUE_URL } = process.env;
export const UNKNOWN_KEY = 'sk-ccr-unknown';
export const UNKNOWN_MODEL = 'acme/unknown';

/** What the provider answers. */
export const HELLO = 'Hello from the provider.';
export const SUNNY = 'It is sunny in Oslo.';
export const SIX_WORDS = 'one two three four five six ';
export const CITY = { name: 'Oslo', population: 709_000 };

export const WEATHER_PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};
export const CITY_SCHEMA = {
  type: 'object',
  properties: { name: { type: 'string' }, population: { type: 'integer' } },
  required: ['name', 'population'],
  additionalProperties: false,
};

/** `run` returns the usage that it was told, as `[prompt, completion]`, or nothing. */
export async function check(name, run) {
  let line;
  try {
    const usage = await run();
    line = { check: name, ok: true, ...(usage && { usage }) };
  } catch (error) {
    line = { check: name, ok: false, detail: inspect(error, { depth: 4 }) };
  }
  console.log(JSON.stringify(line));
}

/** Reads a stream at the gate, whose provider sends the second half of the words once the first one was read. */
export async function readThroughGate(texts) {
  let words = '';
  let called = false;
  for await (const text of texts) {
    words += text;
    if (words.includes('three') && !called) {
      called = true;
      await fetch(CONTINUE_URL);
    }
  }
  assert.equal(words, SIX_WORDS);
}

/** What `run` throws, with its status. */
export async function refusalOf(run, status) {
  let thrown;
  await assert.rejects(run, (error) => {
    thrown = error;
    return true;
  });
  assert.equal(thrown.status ?? thrown.statusCode, status, inspect(thrown));
  return thrown;
}
