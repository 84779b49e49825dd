import { describe, expect, it } from 'vitest';

import {
  type BodyReader,
  bodyOfChunks,
  type BodySource,
  MAX_KEPT_BYTES,
  PushBody,
  streamOf,
} from '../../../src/http/answer-body.ts';

/** A source that notes what it is told. */
function noting(): BodySource & { readonly told: string[] } {
  const told: string[] = [];
  return {
    told,
    pause: () => told.push('pause'),
    resume: () => told.push('resume'),
    destroy: (reason) => told.push(`destroy ${reason?.message}`),
  };
}

/** A reader that notes what it gets. */
function reading(onData: (text: string) => void = () => {}): BodyReader & { readonly got: string[] } {
  const got: string[] = [];
  return {
    got,
    onData: (chunk) => {
      got.push(String(chunk));
      onData(String(chunk));
    },
    onEnd: () => got.push('end'),
    onBroken: (error) => got.push(`broken ${error?.message}`),
  };
}

const bytes = (text: string): Buffer => Buffer.from(text);

describe('a body', () => {
  it('keeps what comes before its reader, and then passes each chunk', () => {
    const body = new PushBody(noting());
    body.push(bytes('a'));
    const reader = reading();
    body.read(reader);
    body.push(bytes('b'));
    body.end();
    expect(reader.got).toEqual(['a', 'b', 'end']);
  });

  it('keeps the order of bytes that are put back while what was kept is passed', () => {
    const body = new PushBody(noting());
    const long = 'c'.repeat(1024);
    for (const each of ['a', 'b', long]) body.push(bytes(each));
    body.end();
    const first = reading((text) => {
      if (text === 'b') body.unread(bytes('ab'));
    });
    body.read(first);
    const second = reading();
    body.read(second);
    expect(first.got).toEqual(['a', 'b']);
    expect(second.got).toEqual(['ab', long, 'end']);
  });

  it('passes small chunks that it kept together, but for the first', () => {
    const body = new PushBody(noting());
    for (const each of ['a', 'b', 'c', 'd']) body.push(bytes(each));
    const reader = reading();
    body.read(reader);
    body.push(bytes('e'));
    expect(reader.got).toEqual(['a', 'bcd', 'e']);
  });

  it('that is paused passes nothing, also of what comes and of its end', () => {
    const body = new PushBody(noting());
    const reader = reading(() => {
      body.pause();
    });
    body.read(reader);
    for (const each of ['a', 'b']) body.push(bytes(each));
    body.end();
    expect(reader.got).toEqual(['a']);
    body.resume();
    expect(reader.got).toEqual(['a', 'b']);
    body.resume();
    expect(reader.got).toEqual(['a', 'b', 'end']);
  });

  it('that breaks while it is paused says so at once, and has what came before', () => {
    const body = new PushBody(noting());
    const reader = reading();
    body.read(reader);
    body.pause();
    body.push(bytes('kept'));
    body.fail(new Error('reset'));
    body.fail(new Error('again'));
    expect(reader.got).toEqual(['broken reset']);
    expect(body.takeKept().map(String)).toEqual(['kept']);
  });

  it('that broke before it had a reader passes what came, and then says so', () => {
    const body = new PushBody(noting());
    body.push(bytes('a'));
    body.fail(new Error('reset'));
    const reader = reading();
    body.read(reader);
    expect(reader.got).toEqual(['a', 'broken reset']);
  });

  it('has its source paused beyond what it keeps, and resumed once that was read', () => {
    const source = noting();
    const body = new PushBody(source);
    body.push(Buffer.alloc(MAX_KEPT_BYTES));
    expect(source.told).toEqual([]);
    body.push(bytes('a'));
    body.push(bytes('b'));
    expect(source.told).toEqual(['pause']);
    body.read(reading());
    expect(source.told).toEqual(['pause', 'resume']);
  });

  it('keeps all of a body that comes byte by byte', async () => {
    const body = new PushBody(noting());
    const text = 'abcdefghij'.repeat(100);
    for (const each of text) body.push(bytes(each));
    body.end();
    expect(Buffer.concat(await streamOf(body).toArray()).toString()).toBe(text);
  });

  it('is taken whole once it is as long as announced, and not longer than wanted', () => {
    const body = bodyOfChunks([bytes('ab'), bytes('c')]);
    expect(body.takeWhole(undefined, 10)).toBeUndefined();
    expect(body.takeWhole('4', 10)).toBeUndefined();
    expect(body.takeWhole('3', 2)).toBeUndefined();
    expect(String(body.takeWhole('3', 10))).toBe('abc');
    expect(body.takeWhole('3', 10)).toBeUndefined();
  });

  it('that is destroyed closes its source once, tells its reader, and passes nothing more', () => {
    const source = noting();
    const body = new PushBody(source);
    const reader = reading();
    body.read(reader);
    body.destroy(new Error('enough'));
    body.destroy(new Error('again'));
    body.push(bytes('a'));
    body.end();
    expect(reader.got).toEqual(['broken enough']);
    expect(source.told).toEqual(['destroy enough']);
  });
});
