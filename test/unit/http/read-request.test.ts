import { expect, it } from 'vitest';

import { scanBuffer } from '../../../src/http/read-body.ts';

const BYTES = Buffer.from('{"model":"acme/chat","messages":[]}');

it('keeps neither its bytes nor what was read of them once it is released', async () => {
  const read = await scanBuffer(BYTES, { maxBodyBytes: 1000, bodyTimeoutMs: 1000 });
  expect(read.body).toEqual([BYTES]);
  read.releaseBody();
  expect(read.body).toEqual([]);
  expect(read.request.model).toBe('acme/chat');
  read.release();
  expect(() => read.request).toThrow(new TypeError('The request was released'));
});
