import { answerOfHook } from '../json-api/api.ts';
import { NotPermittedError, UnauthorizedError } from '../json-api/errors.ts';
import type { ApiRequest } from '../json-api/host-view.ts';
import { hasLimits } from '../keys/key-policy.ts';
import { checkAccount } from '../ledger/engine/validate-commands.ts';
import { type Holder, HOLDER_PERMISSIONS } from './holder.ts';
import type { AccountRouterOptions, HeldRouter } from './options.ts';

/**
 * Whose a request is: by the host's session, else by an API key.
 *
 * @throws {RouterError} a 401 or 403 without an account
 */
export async function holderOf(
  request: ApiRequest,
  router: HeldRouter,
  { whoIs, keyHolders = 'manage' }: AccountRouterOptions,
): Promise<Holder> {
  const known = whoIs && (await answerOfHook(async () => hostHolder(await whoIs(request))));
  if (known) return known;
  if (keyHolders === 'none' || request.headers.authorization === undefined) {
    const wanted = keyHolders === 'none' ? 'a session of this site' : 'an API key, or a session of this site';
    throw new UnauthorizedError(`Unauthorized: the account API needs ${wanted}.`);
  }
  return await keyHolder(request, router, keyHolders);
}

/** @throws {TypeError} for what is neither a holder nor nothing: a wrong type must not sign in */
function hostHolder(answer: unknown): Holder | undefined {
  if (answer === undefined || answer === null || answer === false || answer === '') return undefined;
  if (typeof answer !== 'object' && typeof answer !== 'string') throw wrongAnswer(`got ${typeof answer}`);
  const given: { readonly account?: unknown; readonly name?: unknown; readonly may?: unknown } =
    typeof answer === 'string' ? { account: answer } : answer;
  const { account, name = account, may = HOLDER_PERMISSIONS } = given;
  if (typeof account !== 'string') throw wrongAnswer(`its account is ${typeof account}`);
  checkAccount(account);
  if (typeof name !== 'string' || name === '' || name.length > 200) throw wrongAnswer('its name is none');
  if (!Array.isArray(may)) throw wrongAnswer(`its may is ${typeof may}`);
  const unknown = may.find((each) => !HOLDER_PERMISSIONS.includes(each));
  if (unknown !== undefined) throw wrongAnswer(`its may has ${JSON.stringify(unknown)}`);
  return { account, name, may: HOLDER_PERMISSIONS.filter((each) => may.includes(each)) };
}

function wrongAnswer(got: string): TypeError {
  return new TypeError(
    `whoIs must return an account, { account, name, may } with may a list of ${HOLDER_PERMISSIONS.join(', ')}, or undefined; ${got}`,
  );
}

/**
 * A key without limits of its own speaks for its account. One with limits sees itself, and could otherwise make a key
 * without them.
 */
async function keyHolder(
  { headers }: ApiRequest,
  router: HeldRouter,
  keyHolders: 'read' | 'manage',
): Promise<Holder> {
  const { account, key, from } = await router.authenticate(headers);
  const name = `key ${key}`;
  if (from !== 'ledger') {
    throw new NotPermittedError(name, 'read', []);
  }
  const info = await router.keys.get(account, key);
  if (!info) throw new UnauthorizedError('Unauthorized: this API key was deleted.');
  if (hasLimits(info)) return { account, name, key, onlyKey: key, may: ['read', 'playground'] };
  const may = HOLDER_PERMISSIONS.filter((each) => each !== 'keys' || keyHolders === 'manage');
  return { account, name, key, may };
}
