import type { IncomingHttpHeaders } from 'node:http';

import { checkAccount, checkKey } from '../ledger/engine/validate-commands.ts';
import { parseMarkup } from '../metering/markup.ts';
import type { AuthenticatedCaller } from '../options/authenticate-options.ts';
import { parseRequirements, requiredLabels } from '../options/labels.ts';
import { parseModelPatterns } from '../options/model-patterns.ts';
import { type Caller, ByokKeys } from './caller.ts';
import { checkedEndUser, tagDimensions } from './dimensions.ts';
import { withoutCredentials } from '../platform/without-credentials.ts';
import { asError } from '../platform/as-error.ts';

const CALLER_MEMBERS: Record<keyof AuthenticatedCaller, true> = {
  account: true,
  key: true,
  user: true,
  tags: true,
  models: true,
  require: true,
  markup: true,
  upstreamKeys: true,
};

/**
 * The caller that your app's `authenticate` returned, validated like those of the ledger and the admin API; undefined
 * if it returned none.
 *
 * @throws {TypeError} naming the invalid member
 */
export function hostCaller(answer: unknown): Caller | undefined {
  if (answer === undefined || answer === null || answer === false) return undefined;
  if (!isRecord(answer)) {
    throw new TypeError(`authenticate must return an object or undefined, got ${typeof answer}`);
  }
  const unknown = Object.keys(answer).find((name) => !Object.hasOwn(CALLER_MEMBERS, name));
  if (unknown !== undefined) {
    const known = Object.keys(CALLER_MEMBERS).join(', ');
    throw new TypeError(`authenticate returned ${JSON.stringify(unknown)}; it takes ${known}`);
  }
  const { account, key = 'external', user, tags, models, require, markup, upstreamKeys } = answer;
  checkAccount(account);
  checkKey(key);
  if (markup !== undefined) parseMarkup(markup, 'markup of authenticate');
  return {
    account,
    key,
    externalKey: true,
    ...(user !== undefined && { endUser: checkedEndUser(user, 'user of authenticate') }),
    ...(tags !== undefined && { tags: tagDimensions(tags, 'tags of authenticate') }),
    ...(models !== undefined && { models: parseModelPatterns(models, 'models of authenticate') }),
    ...(require !== undefined && {
      require: requiredLabels(parseRequirements(require, 'require of authenticate'), 'key'),
    }),
    ...(markup !== undefined && { markup: { ...markup } }),
    ...(upstreamKeys !== undefined && { upstreamKeys: new ByokKeys(upstreamKeys) }),
  };
}

/** Narrows to an object; its members are validated one by one. */
function isRecord(answer: unknown): answer is AuthenticatedCaller {
  return typeof answer === 'object' && answer !== null && !Array.isArray(answer);
}

/** Shorter parts are ordinary words. */
const MIN_SECRET_LENGTH = 8;
const MAX_MESSAGE_LENGTH = 300;

/**
 * An error that your app's `authenticate` threw, made safe to log: on one line, with asterisks in place of the client's
 * header values and of credentials in URLs.
 */
export function loggableFailure(thrown: unknown, headers: IncomingHttpHeaders): Error {
  const error = asError(thrown);
  const secrets = Object.values(headers)
    .flatMap((value) => String(value).split(/[\s,;=]+/))
    .filter((part) => part.length >= MIN_SECRET_LENGTH);
  const masked = (text: string): string =>
    withoutCredentials(secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), text));
  const code: unknown = Reflect.get(error, 'code');
  const failure = new Error(masked(error.message).replace(/\s+/g, ' ').slice(0, MAX_MESSAGE_LENGTH));
  failure.name = error.name;
  failure.stack = masked(error.stack ?? String(error));
  return Object.assign(failure, typeof code === 'string' && { code });
}
