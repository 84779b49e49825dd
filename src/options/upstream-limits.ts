import { assertObject, positiveInteger } from './option-checks.ts';

/** What one API key of a provider may be used for: by all its models together, or by one target. */
export interface UpstreamLimits {
  /** Requests in any 60 seconds. @default no limit */
  readonly requestsPerMinute?: number;
  /** Tokens of prompts and answers in any 60 seconds: estimated when a request is sent, corrected by its usage. @default no limit */
  readonly tokensPerMinute?: number;
  /** Requests that run at the same time, each until its answer has ended. @default no limit */
  readonly concurrentRequests?: number;
}

const NAMES = { requestsPerMinute: true, tokensPerMinute: true, concurrentRequests: true } as const;

/** @throws {TypeError} naming the invalid option */
export function resolveUpstreamLimits(
  given: UpstreamLimits | undefined,
  option: string,
): UpstreamLimits | undefined {
  if (given === undefined) return undefined;
  assertObject(given, option, NAMES);
  for (const [name, value] of Object.entries(given)) positiveInteger(value, `${option}.${name}`);
  return { ...given };
}
