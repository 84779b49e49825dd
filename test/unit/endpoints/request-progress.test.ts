import { describe, expect, it } from 'vitest';

import { createCatalog } from '../../../src/catalog/catalog.ts';
import { PerTarget, type Target } from '../../../src/catalog/model.ts';
import { RequestProgress } from '../../../src/endpoints/request-progress.ts';
import { UpstreamError, UpstreamTimeoutError } from '../../../src/errors/upstream-errors.ts';
import { DetachedReads } from '../../../src/http/detached-reads.ts';
import { ClientDisconnectedError } from '../../../src/http/exchange.ts';
import { type RelayEnd, RouterClosedError } from '../../../src/http/relay-end.ts';
import { EstimateCalibration } from '../../../src/metering/estimate-calibration.ts';
import { UsageMeter } from '../../../src/metering/usage-meter.ts';
import { ActiveRequest } from '../../../src/observability/active-request.ts';
import { resolveSettings } from '../../../src/options/resolve-options.ts';
import type { AbandonedQuote } from '../../../src/upstream/abandoned-answers.ts';
import { CircuitBreakers } from '../../../src/upstream/circuit-breaker.ts';
import { RecentErrors } from '../../../src/upstream/recent-errors.ts';
import { RunningAttempts } from '../../../src/upstream/attempt.ts';

const OPTIONS = {
  store: 'memory:',
  providers: {
    acme: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk', onDisconnect: 'abort' },
    other: { baseURL: 'http://127.0.0.1:2/v1', apiKey: 'sk', onDisconnect: 'drain' },
  },
  models: {
    fast: {
      targets: ['acme/fast', 'other/fast'],
      pricing: { input: '1', output: '3' },
      maxOutputTokens: 1000,
    },
  },
} as const;
const [FIRST, SECOND] = (createCatalog(OPTIONS, resolveSettings(OPTIONS)).get('fast')?.targets ?? []) as [
  Target,
  Target,
];

const ANSWERED = { target: FIRST, key: undefined, counted: undefined, answer: { status: 200 } };

const QUOTE: AbandonedQuote = {
  size: {
    messages: 1,
    stringBytes: 4,
    asciiChars: 4,
    nonAsciiChars: 0,
    images: 0,
    audioBytes: 0,
    files: 0,
    fileBytes: 0,
    linkedFiles: 0,
    toolLists: 0,
  },
  webSearchesNeeded: 0,
};

class Running {
  isWritten = false;
  aborted: Error | undefined;
  abort(reason: Error): void {
    this.aborted = reason;
  }
}

function setUp(isDismissed = false) {
  const running = new RunningAttempts();
  const detachedReads = new DetachedReads();
  const breakers = new CircuitBreakers({
    settings: { failures: 1, coolDownMs: 5000, maxCoolDownMs: 5000 },
    emit: () => {},
  });
  const active = new ActiveRequest('req_1', undefined);
  const terms = {
    requestId: 'r1',
    caller: { account: 'acct', key: 'key' },
    quote: QUOTE,
    startedAt: performance.now(),
  };
  const progress = new RequestProgress(
    { targets: [FIRST, SECOND], conversation: undefined, hold: { terms } },
    { isDismissed },
    {
      running,
      detachedReads,
      recentErrors: new RecentErrors(),
      calibrations: new PerTarget(() => new EstimateCalibration()),
    },
    active,
  );
  return { progress, running, active, report: breakers.of(FIRST).startAttempt(Date.now(), 'acct'), breakers };
}

function end(ending: RelayEnd['ending'], error?: Error): RelayEnd {
  return { ending, withheld: false, firstByteAt: 1, stalled: false, ...(error && { error }) };
}

describe('the progress of a request', () => {
  it('owes nothing before a target was asked', () => {
    expect(setUp().progress.close()).toEqual({ ending: 'failed', target: FIRST, dispatched: false });
  });

  it('may owe something once its head was written', () => {
    const { progress } = setUp();
    progress.asking(FIRST);
    expect(progress.outcome.dispatched).toBe(false);
    progress.attempting(new Running());
    expect(progress.outcome.dispatched).toBe(false);
    progress.dispatched();
    expect(progress.outcome).toEqual({ ending: 'failed', target: FIRST, dispatched: true });
  });

  it('owes nothing for what a provider rejected or did not answer', () => {
    const { progress } = setUp();
    progress.asking(FIRST);
    progress.attempting(new Running());
    progress.dispatched();
    progress.rejected();
    expect(progress.outcome.dispatched).toBe(false);
    progress.dispatched();
    progress.unanswered(new UpstreamError('upstream_unreachable', 'reset'));
    expect(progress.outcome.dispatched).toBe(false);
  });

  it('begins again with each target, and says which one runs', () => {
    const { progress, active } = setUp();
    progress.asking(FIRST);
    progress.dispatched();
    expect(active.provider).toBe('acme');
    progress.asking(SECOND);
    expect(active.provider).toBe('other');
    expect(progress.outcome).toEqual({ ending: 'failed', target: SECOND, dispatched: false });
  });

  it.each([
    [false, 12],
    [true, 0],
  ])('tells the target’s speed, unless the client read slowly: %s', (stalled, tokens) => {
    const { progress, report } = setUp();
    progress.asking(FIRST);
    progress.answered({ report, ...ANSWERED });
    const meter = new UsageMeter();
    meter.write(
      Buffer.from('{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}'),
    );
    meter.end();
    progress.relayed({ ...end('finished'), stalled }, { status: 200, meter, firstByteAt: performance.now() });
    expect(report.tokens).toBe(tokens);
    progress.close();
  });

  it('charges what was relayed, to the target that answered', () => {
    const { progress, report } = setUp();
    progress.asking(SECOND);
    progress.dispatched();
    progress.answered({ ...ANSWERED, report });
    const answer = { status: 200, meter: new UsageMeter() };
    progress.relayed(end('finished'), answer);
    expect(progress.close()).toEqual({ ending: 'finished', target: SECOND, dispatched: true, answer });
  });

  it.each([
    [new ClientDisconnectedError(), 'client_gone'],
    [new UpstreamTimeoutError('idle', 1), 'timeout'],
    [new RouterClosedError(), 'closed'],
    [new UpstreamError('upstream_unreachable', 'reset'), 'upstream_error'],
    [new Error('a bug'), 'upstream_error'],
  ])('ends with %s as %s, and aborts the attempt that runs', (error, ending) => {
    const { progress } = setUp();
    const attempt = new Running();
    progress.asking(FIRST);
    progress.attempting(attempt);
    progress.dispatched();
    progress.failed(error);
    expect(progress.outcome).toEqual({ ending, target: FIRST, dispatched: true });
    expect(attempt.aborted).toBe(error);
  });

  it('ends as refused if the guard refused it, whatever came of its call', () => {
    const { progress } = setUp(true);
    progress.asking(FIRST);
    progress.dispatched();
    progress.failed(new ClientDisconnectedError());
    expect(progress.close()).toEqual({ ending: 'refused', target: FIRST, dispatched: true });
  });

  it('aborts the latest attempt alone, and none once it is over', () => {
    const { progress, running } = setUp();
    const [first, second] = [new Running(), new Running()];
    progress.asking(FIRST);
    progress.attempting(first);
    progress.attempting(second);
    progress.failed(new Error('broken'));
    expect(first.aborted).toBeUndefined();
    expect(second.aborted).toBeDefined();
    progress.close();
    second.aborted = undefined;
    running.close();
    expect(second.aborted).toBeUndefined();
  });

  it("says in a provider's failure which provider, model and attempt it was", () => {
    const { progress } = setUp();
    progress.asking(FIRST);
    progress.attempting(new Running());
    progress.asking(SECOND);
    progress.attempting(new Running());
    const error = new UpstreamError('upstream_unreachable', 'reset');
    progress.failed(error);
    expect(error).toMatchObject({ provider: 'other', model: 'fast', attempt: 2 });
  });

  it('names no attempt where none was sent to the target', () => {
    const { progress } = setUp();
    progress.asking(FIRST);
    progress.attempting(new Running());
    progress.asking(SECOND);
    const error = new UpstreamError('upstream_unreachable', 'no key');
    progress.failed(error);
    expect(error).toMatchObject({ provider: 'other' });
    expect(error).not.toHaveProperty('attempt');
  });

  it.each(['upstream_cut', 'timeout'] as const)(
    'counts an answer that ended as %s against its target',
    (ending) => {
      const { progress, report, breakers } = setUp();
      progress.asking(FIRST);
      progress.answered({ ...ANSWERED, report });
      progress.relayed(end(ending, new Error('cut')), { status: 200, meter: new UsageMeter() });
      progress.close();
      expect(breakers.statuses([FIRST])).toMatchObject([{ failuresInARow: 1 }]);
    },
  );

  it('reads an answer on after its client disconnected where that is wanted, until the next target is asked', () => {
    const { progress } = setUp();
    const detached = progress.asking(SECOND);
    expect(progress.detached).toBe(detached);
    expect(detached.begin(() => {})).toBe(true);
    const next = progress.asking(FIRST);
    expect(progress.detached).toBe(next);
    expect(next.begin(() => {})).toBe(false);
  });
});
