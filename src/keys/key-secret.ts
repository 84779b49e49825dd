import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

const PREFIX = 'sk-ccr-';
const ID_LENGTH = 10;
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const LENGTH = PREFIX.length + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH;
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * Whether a text can be an API key of ours at all: `sk-ccr-…` with the right checksum.
 *
 * Asks nobody, so it tells typos, other people's keys, and keys that leaked into a log or a repository. Whether the
 * key is known, and still good, only its store can say.
 */
export function isApiKey(text: string): boolean {
  return (
    text.length === LENGTH &&
    text.startsWith(PREFIX) &&
    checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH)
  );
}

/** What stands for a key wherever it is kept. */
export function hashApiKey(apiKey: string): string {
  return hash('sha256', apiKey, 'hex');
}

/** An id that a key can begin with. */
export function newKeyId(): string {
  return randomText(ID_LENGTH);
}

/** A new secret of a key, in which its id can be read where the id was made by `newKeyId`. */
export function newApiKey(id: string): string {
  const isOurs = id.length === ID_LENGTH && /^[0-9A-Za-z]+$/.test(id);
  const unchecked = PREFIX + (isOurs ? id : newKeyId()) + randomText(SECRET_LENGTH);
  return unchecked + checksum(unchecked);
}

function randomText(length: number): string {
  return Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = ALPHABET[rest % ALPHABET.length] + digits;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return digits;
}
