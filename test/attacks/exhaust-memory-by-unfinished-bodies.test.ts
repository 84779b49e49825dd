import { once } from 'node:events';
import type { Socket } from 'node:net';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { BufferedBytes } from '../../src/http/read-body.ts';
import { type Provider, startProvider } from '../helpers/provider.ts';
import { answerOn, bodyOf, headOf, type RawAnswer, startVictim, type Victim } from './victim.ts';

const MIB = 1024 * 1024;

describe.each(['node', 'web'] as const)('bodies that never end, at the %s door', (kind) => {
  let provider: Provider;
  let victim: Victim;

  beforeEach(async () => {
    provider = await startProvider();
    const router = { maxBodyBytes: 2 * MIB, maxBufferedBytes: 16 * MIB };
    victim = await startVictim({ kind, provider: provider.baseURL, router }, 256);
  });

  afterEach(async () => {
    await victim.stop();
    await provider.close();
  });

  /** Sends all of a body of 1 MiB but its last byte; resolves once that is taken, or with the refusal. */
  async function begin(key: string): Promise<{ socket: Socket; refusal: RawAnswer | undefined }> {
    const socket = victim.connect();
    const refused = answerOn(socket);
    const body = bodyOf(MIB);
    socket.write(headOf(key, [`content-length: ${MIB}`]));
    const written = new Promise<void>((resolve) => socket.write(body.slice(0, -1), () => resolve()));
    await written;
    // What it has in its own buffers is with the router once it answers another on this side.
    const refusal = await Promise.race([refused, other(key).then(() => undefined)]);
    return { socket, refusal };
  }

  /** A request that needs no body, by when those before it were read. */
  async function other(key: string): Promise<void> {
    for (let i = 0; i < 20; i++) {
      const socket = victim.connect();
      const answer = answerOn(socket);
      socket.write(
        `GET /v1/credits HTTP/1.1\r\nhost: victim\r\nauthorization: Bearer ${key}\r\nconnection: close\r\n\r\n`,
      );
      await answer;
    }
  }

  async function ask(key: string): Promise<RawAnswer> {
    const socket = victim.connect();
    const answer = answerOn(socket);
    const body = bodyOf(100_000);
    socket.write(headOf(key, [`content-length: ${body.length}`, 'connection: close']) + body);
    return answer;
  }

  it('hold what they may, those of one key a quarter of it, and others are served', async () => {
    const [attacker = '', ...others] = victim.keys;
    const open: Socket[] = [];
    const refusals: RawAnswer[] = [];
    for (let i = 0; i < 8; i++) {
      const { socket, refusal } = await begin(attacker);
      open.push(socket);
      if (refusal) refusals.push(refusal);
    }
    expect(refusals.length).toBeGreaterThanOrEqual(4);
    for (const { status, text } of refusals) {
      expect(status).toBe(503);
      expect(text).toMatch(/"code":"request_buffers_full"/);
      expect(text).toMatch(/retry-after: 1\r\n/i);
    }
    for (const key of others) expect(await ask(key)).toMatchObject({ status: 200 });

    for (const socket of open) {
      socket.destroy();
      await once(socket, 'close');
    }
    await other(attacker);
    expect(await ask(attacker)).toMatchObject({ status: 200 });
  }, 60_000);

  it('of many keys hold no more than all may', async () => {
    const before = (await victim.taken()).mostBytes;
    let refused = 0;
    for (let i = 0; i < 40; i++) {
      const { refusal } = await begin(victim.keys[i % victim.keys.length] ?? '');
      if (refusal) refused += 1;
    }
    expect(refused).toBeGreaterThanOrEqual(24);
    expect((await victim.taken()).mostBytes - before).toBeLessThan(128 * MIB);
  }, 60_000);
});

describe('the room for bodies of requests that are not admitted yet', () => {
  it('is given back, to the byte', () => {
    const buffered = new BufferedBytes({ maxBodyBytes: 10, maxBufferedBytes: 100 });
    const first = buffered.reserveFor('acct', 'key');
    const second = buffered.reserveFor('acct', 'key');
    first.hold(10);
    second.hold(15);
    expect(() => second.hold(1)).toThrow(/pending request bodies would exceed their limit of 25 bytes/);
    expect(buffered.held).toBe(25);
    first.release();
    second.hold(10);
    second.release();
    expect(buffered.held).toBe(0);
  });

  it('has a whole body of each key, where all may hold no more than a few', () => {
    const buffered = new BufferedBytes({ maxBodyBytes: 80, maxBufferedBytes: 100 });
    const body = buffered.reserveFor('acct', 'key');
    body.hold(80);
    const other = buffered.reserveFor('other', 'key');
    other.hold(20);
    expect(() => other.hold(1)).toThrow(/no memory for another request body/);
  });
});
