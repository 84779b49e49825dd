import * as crypto from 'node:crypto';
import * as zlib from 'node:zlib';

import { AuthenticationError } from '../errors/key-errors.ts';

const PREFIX = 'sk-ccr-';
const ID_LENGTH = 10;
const SECRET_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const LENGTH = PREFIX.length + ID_LENGTH + SECRET_LENGTH + CHECKSUM_LENGTH;
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * Whether a text has the form of this router's API keys: `sk-ccr-…` with a valid checksum.
 *
 * Needs no store, so it can detect typos, other providers' keys, and keys that leaked into a log or a repository. Only
 * the store knows whether the key exists and is active.
 */
export function isApiKey(text: string): boolean {
  return (
    text.length === LENGTH &&
    text.startsWith(PREFIX) &&
    checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH)
  );
}

const BEARER = /^bearer +[\u0021-\u007e]+ *$/i;

/** @throws {AuthenticationError} if the header has no bearer key */
export function bearerKey(header: string | undefined): string {
  if (header === undefined || !BEARER.test(header)) throw new AuthenticationError('missing_api_key');
  return header.slice('bearer '.length).trim();
}

/** SHA-256 of a key, in hex: what caches and stores keep in place of the key. */
export function hashApiKey(apiKey: string): string {
  return crypto.hash('sha256', apiKey, 'hex');
}

/** A random id for a key. */
export function newKeyId(): string {
  return randomText(ID_LENGTH);
}

/** A new secret for a key; starts with the key's id if `newKeyId` made that. */
export function newApiKey(id: string): string {
  const isGeneratedId = id.length === ID_LENGTH && /^[0-9A-Za-z]+$/.test(id);
  const unchecked = PREFIX + (isGeneratedId ? id : newKeyId()) + randomText(SECRET_LENGTH);
  return unchecked + checksum(unchecked);
}

function randomText(length: number): string {
  return Array.from({ length }, () => ALPHABET[crypto.randomInt(ALPHABET.length)]).join('');
}

function checksum(text: string): string {
  let rest = zlib.crc32(text);
  let digits = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = ALPHABET[rest % ALPHABET.length] + digits;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return digits;
}
