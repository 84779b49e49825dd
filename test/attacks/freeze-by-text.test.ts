import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { endpoints } from '../../src/admin/endpoints.ts';
import { ApiRoutes } from '../../src/json-api/api-routes.ts';
import { findEndpoint } from '../../src/router/routes.ts';
import { type Gateway, QUESTION, startGateway } from '../helpers/gateway.ts';
import { answerJson } from '../helpers/provider.ts';
import { cpuTime, cpuTimeOf } from './cpu-time.ts';

const KIB = 1024;

describe('the path of a request', () => {
  const routes = new ApiRoutes(endpoints, '/admin');
  const HOSTILE: readonly (readonly [what: string, path: string])[] = [
    ['slashes', '/'.repeat(16 * KIB)],
    ['slashes in the middle', `/v1${'/'.repeat(16 * KIB)}x`],
    ['slashes after a name', `/admin/accounts/${'/'.repeat(16 * KIB)}x`],
    ['names', '/model/accounts/chat'.repeat(800)],
    ['per cent signs', `/v1/models/${'%'.repeat(16 * KIB)}`],
  ];

  it.each(HOSTILE)('of 16 KiB of %s takes no longer than any other as long', (_what, path) => {
    const harmless = `/v1/${'x'.repeat(16 * KIB)}`;
    const timeOf = (url: string): number =>
      cpuTime(() => {
        for (let i = 0; i < 20; i++) {
          findEndpoint(url, '/v1');
          routes.match(url, false);
        }
      });
    timeOf(harmless);
    expect(timeOf(path)).toBeLessThan(10 * Math.max(timeOf(harmless), 0.2));
  });

  it('is not read beyond 4,096 characters', () => {
    const mount = '/m'.repeat(2000);
    expect(findEndpoint(`${mount}/chat/completions`, '')).toEqual({ name: 'completions' });
    expect(findEndpoint(`${mount}${mount}/chat/completions`, '')).toBeUndefined();
    expect(routes.match(`${mount}/accounts`, false)).toMatchObject({ kind: 'resource' });
    expect(routes.match(`${mount}${mount}/accounts`, true)).toBeUndefined();
  });
});

describe("a provider's refusal", () => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway();
  });

  afterEach(async () => {
    await gateway.close();
  });

  /** The processor's time of some requests that are refused with this message. */
  async function timeOf(message: string): Promise<number> {
    gateway.provider.script = answerJson(JSON.stringify({ error: { message } }), 400);
    return cpuTimeOf(async () => {
      for (let i = 0; i < 5; i++) {
        const response = await gateway.post({ ...QUESTION, stream: true });
        expect(response.status).toBe(400);
        await response.text();
      }
    });
  }

  it.each([
    ['underscores', '_'],
    ['blanks', ' '],
    ['words', 'a_'],
    ['beginnings', 'unknown_'],
  ])('that quotes %s of the client takes no longer than any other', async (_what, piece) => {
    await timeOf('x'.repeat(6400));
    const harmless = await timeOf('x'.repeat(6400));
    const hostile = await timeOf(`Unknown role: unknown${piece.repeat(6400 / piece.length)}`);
    expect(hostile).toBeLessThan(10 * Math.max(harmless, 5));
  });
});
