import { describe, expect, it } from 'vitest';

import { ChunkCollector } from '../../../src/http/body-chunks.ts';
import { BILLED_FIELDS } from '../../../src/http/billed-fields.ts';
import { PLAIN_FIELDS, REJECTED_FIELDS, rejectionReason } from '../../../src/http/rejected-fields.ts';
import { scanAtOnce, scanWhole } from '../../../src/http/scan-request.ts';
import { MESSAGES, request, scan } from '../../helpers/scanned-request.ts';

/** Bodies of which the scanner sees one after the other; most of them end it in the middle of something. */
const BODIES = [
  request(),
  '{"model":"m","messages":[{"role":"us',
  request('"max_tokens":5,"temperature":0.5'),
  `{"model":"m",${MESSAGES},"n":1,"n":2}`,
  '{"model":"\\ud83',
  request('"stream":true,"stream_options":{"include_usage":true}'),
  '[[[[',
  request('"best_of":2'),
  '{"model":"m","messages":[]} trailing',
  request(`"user":"${'é'.repeat(2000)}"`),
  '',
  request('"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]'),
];

describe('scanAtOnce', () => {
  it('reads each body as a scanner of its own does, whatever came before', async () => {
    for (const body of [...BODIES, ...BODIES.toReversed()]) {
      const bytes = Buffer.from(body);
      const own = await outcomeOf(() => scanWhole(bytes));
      expect(await outcomeOf(() => scanAtOnce(bytes, {})), body).toEqual(own);
      expect(await outcomeOf(() => scan(bytes)), body).toEqual(own);
    }
  });
});

async function outcomeOf(read: () => unknown): Promise<unknown> {
  try {
    return await read();
  } catch (error) {
    return error;
  }
}

describe('plain fields', () => {
  it.each(PLAIN_FIELDS)('%s is no name that is rejected or billed, in any spelling', (name) => {
    expect(rejectionReason(name.length, () => name)).toBeUndefined();
    expect(REJECTED_FIELDS).not.toHaveProperty(name);
    expect(BILLED_FIELDS).not.toHaveProperty(name);
  });
});

describe('ChunkCollector', () => {
  it('copies a small chunk among large ones into a small block', () => {
    const chunks = new ChunkCollector();
    for (let n = 0; n < 16; n++) {
      chunks.add(Buffer.alloc(65_536, n));
      chunks.add(Buffer.from([n]));
    }
    const taken = chunks.take();
    const blocks = new Set(taken.filter(({ length }) => length === 1).map(({ buffer }) => buffer));
    expect([...blocks].reduce((sum, { byteLength }) => sum + byteLength, 0)).toBe(1024);
    expect(Buffer.concat(taken)).toHaveLength(16 * 65_537);
  });
});
