import { PassThrough } from 'node:stream';

import { describe, expect, it } from 'vitest';

import { logHooks } from '../../../src/cli/serve/log-hooks.ts';
import { createLog } from '../../../src/cli/serve/log.ts';
import { ProviderError, UpstreamAnswerError } from '../../../src/errors/upstream-errors.ts';

/** What the text log writes for an event. */
function logged(event: string, fields: Readonly<Record<string, unknown>>): string {
  const out = new PassThrough();
  createLog(out, 'text', () => new Date('2026-11-22T19:50:40Z'))('info', event, fields);
  return String(out.read());
}

const ENDED = {
  requestId: 'r1',
  method: 'GET',
  path: '/v1/models',
  startedAt: 1,
  attempts: [],
  admitted: false,
};

describe('the text log', () => {
  it('has a short line for each response', () => {
    expect(logged('response', { ...ENDED, status: 401, durationMs: 7.4, errorCode: 'missing_api_key' })).toBe(
      '19:50:40 GET /v1/models 401 7 ms missing_api_key r1\n',
    );
    expect(
      logged('response', {
        ...ENDED,
        method: 'POST',
        path: '/v1/chat/completions',
        status: 200,
        durationMs: 812,
        account: 'acme',
        model: 'a\u001b[31m',
      }),
    ).toBe(String.raw`19:50:40 POST /v1/chat/completions 200 812 ms acme a\u001b[31m r1` + '\n');
  });

  it('has a short line for each charge', () => {
    const charge = {
      charged: '0.000045',
      promptTokens: 9,
      completionTokens: 12,
      account: 'acme',
      model: 'fast',
      requestId: 'r1',
    };
    expect(logged('settled', charge)).toBe('19:50:40 settled $0.000045 9 + 12 tokens acme fast r1\n');
  });

  it('has all fields of any other event', () => {
    expect(logged('closing', { signal: 'SIGTERM' })).toBe('19:50:40 closing signal=SIGTERM\n');
  });
});

describe('the log of errors', () => {
  it('has the whole chain of causes', () => {
    const lines: unknown[] = [];
    const { onError } = logHooks((_level, _event, fields) => lines.push(fields?.['cause']));
    const refused = new Error('connect ECONNREFUSED 127.0.0.1:6379');
    const unavailable = new Error('The credit store did not apply the command', { cause: refused });
    void onError?.(new Error('Ledger maintenance failed', { cause: unavailable }), {});
    void onError?.(new Error('without a cause'), {});
    expect(lines).toEqual([
      'The credit store did not apply the command: connect ECONNREFUSED 127.0.0.1:6379',
      undefined,
    ]);
  });

  it("has a provider's own message, status and code, and which target it was", () => {
    const lines: unknown[] = [];
    const { onError } = logHooks((level, event, fields) => lines.push([level, event, fields]));
    const error = new UpstreamAnswerError(new ProviderError('No capacity left', 503, 'overloaded'));
    void onError?.(Object.assign(error, { provider: 'acme', model: 'fast', attempt: 2 }), {
      requestId: 'r1',
    });
    expect(lines).toEqual([
      [
        'error',
        'error',
        {
          requestId: 'r1',
          code: 'upstream_error_status',
          message: "The model's provider answered with status 503. The client got its answer.",
          cause: 'No capacity left',
          provider: 'acme',
          model: 'fast',
          attempt: 2,
          upstreamStatus: 503,
          upstreamCode: 'overloaded',
          stack: undefined,
        },
      ],
    ]);
  });
});
