import { createHash } from 'node:crypto';

import { describe, expect, it } from 'vitest';

import { hashIdempotencyKey } from '../../../src/keys/idempotency-key.ts';

const MEGABYTE = 1024 * 1024;
const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex');

describe('the hash of an Idempotency-Key', () => {
  it.each([
    ['no bytes', []],
    ['one chunk', [5]],
    ['chunks of all sizes', [1, 700_000, 700_000, 3 * MEGABYTE + 7, 0, MEGABYTE, 65_536]],
  ])('is of the whole body, which comes in %s', async (_what, lengths) => {
    const chunks = lengths.map((length, index) => Buffer.alloc(length, `chunk ${index}`));
    expect(await hashIdempotencyKey('order-1', chunks)).toEqual({
      key: sha256('order-1'),
      body: sha256(Buffer.concat(chunks)),
    });
  });

  it('lets other work run after each megabyte', async () => {
    let turns = 0;
    const count = (): void => {
      turns += 1;
      pending = setImmediate(count);
    };
    let pending = setImmediate(count);
    await hashIdempotencyKey(
      'order-1',
      Array.from({ length: 64 }, () => Buffer.alloc(65_536)),
    );
    clearImmediate(pending);
    expect(turns).toBe(3);
  });
});
