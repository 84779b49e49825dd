import type { IncomingHttpHeaders } from 'node:http';

import { InvalidRequestError } from '../errors/request-errors.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import { MAX_END_USER_LENGTH } from '../ledger/contract/key-records.ts';
import { type Dimensions, isTagValue, TAG_VALUE_WANTED } from '../ledger/contract/usage.ts';
import type { DimensionSettings } from '../options/resolve-dimensions.ts';

/**
 * What a request says of whom and what it is for, by its headers, else by its body; undefined if that is not read.
 *
 * @throws {InvalidRequestError} for a header that is too long, or that is no tag
 */
export function saidDimensions(
  headers: IncomingHttpHeaders,
  { endUser, tags }: Pick<ChatRequest, 'endUser' | 'tags'>,
  settings: DimensionSettings | undefined,
): Dimensions | undefined {
  if (!settings) return undefined;
  const said: Record<string, string> = { ...tags };
  if (endUser !== undefined) said['user'] = endUser;
  const user = headerText(headers, settings.user?.header);
  if (user) said['user'] = checked(user, isShort, `at most ${MAX_END_USER_LENGTH} characters`);
  for (const { dimension, header } of settings.tags) {
    const tag = headerText(headers, header);
    if (tag) said[dimension] = checked(tag, isTagValue, TAG_VALUE_WANTED);
  }
  return said;
}

interface HeaderText {
  readonly name: string;
  readonly value: string;
}

/** Undefined if it is not there, or empty. */
function headerText(headers: IncomingHttpHeaders, name: string | undefined): HeaderText | undefined {
  const given = name === undefined ? undefined : headers[name];
  const value = Array.isArray(given) ? given.join(', ') : given;
  return name === undefined || value === undefined || value === '' ? undefined : { name, value };
}

function isShort(value: string): boolean {
  return value.length <= MAX_END_USER_LENGTH;
}

function checked({ name, value }: HeaderText, isValid: (value: string) => boolean, wanted: string): string {
  if (isValid(value)) return value;
  throw new InvalidRequestError(
    'invalid_type',
    `The header "${name}" must have ${wanted}, got ${value.length}.`,
    name,
  );
}
