import * as fc from 'fast-check';
import type { AccountState, JournalLine, Witness } from '../../src/ledger/contract/ledger-store.ts';

/** Witnesses of a random command, chosen from the state at the time of the command. */
export type WitnessSlot =
  | { readonly type: 'line'; readonly back: number; readonly wrong: 'at' | 'id' | undefined }
  | {
      readonly type: 'request';
      readonly nth: number;
      readonly state: 'held' | 'settled' | 'voided' | 'as it is';
      readonly more: bigint;
    }
  | { readonly type: 'forgotten'; readonly ms: number }
  | { readonly type: 'payment'; readonly id: string };

const slot: fc.Arbitrary<WitnessSlot> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('line' as const),
      back: fc.integer({ min: -1, max: 12 }),
      wrong: fc.constantFrom(undefined, undefined, undefined, 'at' as const, 'id' as const),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('request' as const),
      nth: fc.nat(9),
      state: fc.constantFrom('as it is', 'as it is', 'held', 'settled', 'voided'),
      more: fc.constantFrom(0n, 0n, -1n, 1n),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant('forgotten' as const), ms: fc.constantFrom(-1, 0, 0, 1) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant('payment' as const),
      id: fc.constantFrom('opening', 'opening', 'a', 'b', 'p'),
    }),
  },
);

/** Mostly none: an admit with a missing witness does nothing. */
export const witnessSlots: fc.Arbitrary<readonly WitnessSlot[]> = fc.oneof(
  { weight: 4, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.array(slot, { minLength: 1, maxLength: 3 }) },
);

/** @param lines - the lines that were not compacted */
export function witnessesOf(
  slots: readonly WitnessSlot[],
  state: AccountState | undefined,
  lines: readonly JournalLine[],
): Witness[] {
  return slots.flatMap((each) => witnessOf(each, state, lines) ?? []);
}

function witnessOf(
  each: WitnessSlot,
  state: AccountState | undefined,
  lines: readonly JournalLine[],
): Witness | undefined {
  const { seq = 0n, lowWater = 0, requests = [] } = state ?? {};
  switch (each.type) {
    case 'forgotten': {
      const time = Math.max(0, lowWater + each.ms);
      const id = `${time.toString(36).padStart(9, '0')}gate0000ff`;
      return { type: 'request', id, state: 'settled' };
    }
    case 'line': {
      const position = seq - BigInt(each.back);
      const { at = 0, id = 'some' } = lines.find((line) => line.seq === position) ?? {};
      const wrong = { at: at + 1, id: `${id}x` };
      return { type: 'line', seq: position, at, id, ...(each.wrong && { [each.wrong]: wrong[each.wrong] }) };
    }
    case 'request': {
      const request = requests[each.nth % requests.length];
      if (!request) return undefined;
      const { id, amount } = request;
      const claimed = each.state === 'as it is' ? request.state : each.state;
      if (claimed === 'settled' || claimed === 'voided') return { type: 'request', id, state: claimed };
      return { type: 'request', id, state: 'held', hold: amount + each.more };
    }
    default:
      return each;
  }
}
