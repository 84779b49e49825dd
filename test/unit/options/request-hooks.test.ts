import { describe, expect, it } from 'vitest';

import { createChatCompletionsRouter } from '../../../src/index.ts';
import { resolveGuard, resolveRoute } from '../../../src/options/resolve-request-hooks.ts';

const run = (): undefined => undefined;

function create(options: object): unknown {
  return createChatCompletionsRouter({ store: 'memory:', providers: {}, models: {}, ...options });
}

describe('route and guard', () => {
  it('may be functions, with the defaults', () => {
    expect(resolveRoute(run)).toEqual({ run, timeoutMs: 5000, onError: 'refuse' });
    const defaults = { run, parallel: false, timeoutMs: 5000, onError: 'refuse', maxBytes: 8_388_608 };
    expect(resolveGuard(run)).toEqual(defaults);
    expect([resolveRoute(undefined), resolveGuard(undefined)]).toEqual([undefined, undefined]);
  });

  it.each([
    [{ route: 'acme/fast' }, 'route must be a function or an object, got "acme/fast"'],
    [{ route: {} }, 'route.run must be a function, got undefined'],
    [
      { route: { run, parallel: true } },
      'route has an unknown key "parallel"; it takes run, timeoutMs, onError',
    ],
    [{ guard: [run] }, 'guard must be a function or an object, got [null]'],
    [{ guard: { run: 7 } }, 'guard.run must be a function, got 7'],
    [
      { guard: { run, timeoutMs: 0 } },
      'guard.timeoutMs must be a number of milliseconds from 1 to 2147483647, got 0',
    ],
    [{ guard: { run, onError: 'allow' } }, 'guard.onError must be one of refuse, pass, got "allow"'],
    [{ guard: { run, parallel: 'yes' } }, 'guard.parallel must be a boolean, got "yes"'],
    [{ guard: { run, maxBytes: 0 } }, 'guard.maxBytes must be a positive integer, got 0'],
    [{ guard: { run, timeout: 5 } }, 'guard has an unknown key "timeout"; did you mean "timeoutMs"?'],
  ])('name what is wrong: %j', (options, message) => {
    expect(() => create(options)).toThrow(TypeError);
    expect(() => create(options)).toThrow(message);
  });
});
