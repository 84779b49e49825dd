import { assertObject, milliseconds, oneOfError, optionError, positiveInteger } from './option-checks.ts';
import type { Guard, GuardOptions, Route, RouteOptions } from './request-hooks.ts';

export type RouteSettings = Required<RouteOptions>;
export type GuardSettings = Required<GuardOptions>;

const ROUTE_MEMBERS: Record<keyof RouteOptions, true> = { run: true, timeoutMs: true, onError: true };
const GUARD_MEMBERS: Record<keyof GuardOptions, true> = {
  ...ROUTE_MEMBERS,
  parallel: true,
  maxBytes: true,
};

const DEFAULT_TIMEOUT_MS = 5000;
const DEFAULT_MAX_BYTES = 8_388_608;

/** @throws {TypeError} naming the invalid option */
export function resolveRoute(given: Route | RouteOptions | undefined): RouteSettings | undefined {
  if (given === undefined) return undefined;
  const options = typeof given === 'function' ? { run: given } : given;
  assertOptions(options, 'route', ROUTE_MEMBERS);
  return { run: options.run, ...resolveCall(options, 'route') };
}

/** @throws {TypeError} naming the invalid option */
export function resolveGuard(given: Guard | GuardOptions | undefined): GuardSettings | undefined {
  if (given === undefined) return undefined;
  const options = typeof given === 'function' ? { run: given } : given;
  assertOptions(options, 'guard', GUARD_MEMBERS);
  const { run, parallel = false, maxBytes = DEFAULT_MAX_BYTES } = options;
  if (typeof parallel !== 'boolean') throw optionError('guard.parallel', 'a boolean', parallel);
  return {
    run,
    ...resolveCall(options, 'guard'),
    parallel,
    maxBytes: positiveInteger(maxBytes, 'guard.maxBytes'),
  };
}

function assertOptions(options: unknown, option: string, members: Readonly<Record<string, true>>): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw optionError(option, 'a function or an object', options);
  }
  assertObject(options, option, members);
}

const POLICIES = ['refuse', 'pass'];

/** What both have in common. */
function resolveCall(
  { run, timeoutMs = DEFAULT_TIMEOUT_MS, onError = 'refuse' }: RouteOptions | GuardOptions,
  option: string,
): Pick<RouteSettings, 'timeoutMs' | 'onError'> {
  if (typeof run !== 'function') throw optionError(`${option}.run`, 'a function', run);
  if (!POLICIES.includes(onError)) throw oneOfError(`${option}.onError`, POLICIES, onError);
  return { timeoutMs: milliseconds(timeoutMs, `${option}.timeoutMs`), onError };
}
