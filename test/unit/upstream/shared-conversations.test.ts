import { beforeEach, expect, it } from 'vitest';

import type { ServedTurn } from '../../../src/index.ts';
import { SharedConversations } from '../../../src/upstream/shared-conversations.ts';

const HERE = { provider: 'groq', model: 'llama', key: 'first' };
const THERE = { provider: 'azure', model: 'llama', key: undefined };

let now: number;
let conversations: SharedConversations;

beforeEach(() => {
  now = 1_700_000_000_000;
  conversations = new SharedConversations(() => now);
});

const elsewhere = (turn: number, forMs = 1000): ServedTurn => ({ account: 'acme', turn, ...THERE, forMs });

it('tells each turn once, with the time that is left of it', () => {
  conversations.keep('acme', 1, THERE, 5000);
  conversations.keep('acme', 1, HERE, 5000);
  conversations.keep('org/x y', 1, THERE, 300);
  now += 200;
  expect(conversations.report()).toEqual({
    since: 0,
    turns: [
      { account: 'acme', turn: 1, ...HERE, forMs: 4800 },
      { account: 'org/x y', turn: 1, ...THERE, forMs: 100 },
    ],
  });
  conversations.hear({ number: 7, hasMore: false, turns: [] });
  expect(conversations.isUrgent).toBe(false);
  expect(conversations.report()).toEqual({ since: 7, turns: [] });
});

it('knows what others served, until their time is over', () => {
  conversations.report();
  conversations.hear({ number: 1, hasMore: false, turns: [elsewhere(1)] });
  expect(conversations.find('acme', [2, 1])).toEqual(THERE);
  expect(conversations.find('other', [1])).toBeUndefined();
  now += 1000;
  expect(conversations.find('acme', [2, 1])).toBeUndefined();
  expect(conversations.isUrgent).toBe(false);
});

it('keeps what it served itself, as that is newer than what it hears', () => {
  conversations.keep('acme', 1, HERE, 5000);
  conversations.report();
  conversations.keep('acme', 2, HERE, 5000);
  conversations.hear({ number: 3, hasMore: false, turns: [elsewhere(1), elsewhere(2), elsewhere(3)] });
  expect([1, 2, 3].map((turn) => conversations.find('acme', [turn]))).toEqual([HERE, HERE, THERE]);
  // From now on what it hears is newer than turn 1.
  conversations.report();
  conversations.hear({ number: 4, hasMore: false, turns: [elsewhere(1)] });
  expect(conversations.find('acme', [1])).toEqual(THERE);
});

it('tells again what was not taken, and the newest word on each turn', () => {
  conversations.keep('acme', 1, HERE, 5000);
  conversations.keep('acme', 2, HERE, 5000);
  conversations.report();
  conversations.keep('acme', 2, THERE, 5000);
  conversations.unheard();
  const again = { since: 0, turns: [{ account: 'acme', turn: 1, ...HERE, forMs: 5000 }, elsewhere(2, 5000)] };
  expect(conversations.report()).toEqual(again);
  // There are more pages to read.
  conversations.hear({ number: 1000, hasMore: true, turns: [elsewhere(1)] });
  expect(conversations.find('acme', [1])).toEqual(HERE);
  expect(conversations.report()).toEqual({ ...again, since: 1000 });
});

it('bounds what waits: of all accounts, and of one', () => {
  for (let turn = 1; turn <= 300; turn++) conversations.keep('acme', turn, HERE, 5000);
  for (let n = 1; n <= 2000; n++) conversations.keep(`account-${n}`, 1, HERE, 5000);
  const { turns } = conversations.report();
  expect(turns).toHaveLength(1024);
  expect(turns.filter(({ account }) => account === 'acme')).toHaveLength(256);
  // This process remembers all of them.
  expect(conversations.find('acme', [300])).toEqual(HERE);
  conversations.hear({ number: 1024, hasMore: false, turns: [] });
  conversations.keep('acme', 301, HERE, 5000);
  expect(conversations.isUrgent).toBe(true);
});
