import type { JournalLine, LedgerEvent } from '../../src/index.ts';
import type { Account, Books } from './books.ts';
import type { Try } from './client.ts';
import type { GatewayRun } from './gateway-place.ts';
import type { Change } from './operators.ts';
import type { Payer } from './plan.ts';
import type { Attempt } from './provider.ts';
import type { Timeline } from './timeline.ts';

/** All that is known once a scenario is over. */
export interface Evidence {
  readonly runs: readonly GatewayRun[];
  readonly tries: readonly Try[];
  readonly attempts: ReadonlyMap<string, readonly Attempt[]>;
  readonly changes: readonly Change[];
  readonly keys: readonly Payer[];
  readonly timeline: Timeline;
  /** The most that a gateway had resident, every ten seconds. */
  readonly mostMegabytes: readonly number[];
  readonly books: Books;
  /** Whether charges of a gateway that died are kept on its disk. */
  readonly hasOutbox: boolean;
}

/** A request as everybody saw it. */
export interface RequestEvidence {
  readonly id: string;
  /** Undefined where its client can't be told. */
  readonly tried: Try | undefined;
  readonly attempts: readonly Attempt[];
  readonly account: string | undefined;
  /** Of the journal, grants and adjustments aside. */
  readonly lines: readonly JournalLine[];
  /** The sum of them, in nano-dollars. */
  readonly charged: bigint;
}

/** Every request that a client, a gateway, the provider or a journal knows. */
export function requestsOf({ tries, attempts, books }: Evidence): readonly RequestEvidence[] {
  const triesById = new Map<string, Try>();
  for (const tried of tries) if (tried.requestId !== undefined) triesById.set(tried.requestId, tried);
  const linesById = new Map<string, JournalLine[]>();
  const accountById = new Map<string, string>();
  for (const account of books.accounts) {
    for (const line of chargesOf(account)) {
      linesById.set(line.id, [...(linesById.get(line.id) ?? []), line]);
      accountById.set(line.id, account.name);
    }
  }
  const ids = new Set([...triesById.keys(), ...attempts.keys(), ...linesById.keys()]);
  return [...ids].map((id) => {
    const tried = triesById.get(id);
    const lines = linesById.get(id) ?? [];
    return {
      id,
      tried,
      attempts: attempts.get(id) ?? [],
      account: accountById.get(id) ?? tried?.plan.payer.account,
      lines,
      charged: lines.reduce((sum, { amount }) => sum + amount, 0n),
    };
  });
}

export function chargesOf({ lines }: Account): readonly JournalLine[] {
  return lines.filter(({ type }) => type === 's' || type === 'l' || type === 'o' || type === 'e');
}

/** What operators were told of amounts that were given up, by the id of the request, grant or adjustment. */
export function toldLosses(runs: readonly GatewayRun[]): ReadonlyMap<string, bigint> {
  const told = new Map<string, bigint>();
  for (const { event } of runs.flatMap(({ events }) => events)) {
    const loss = lossOf(event);
    if (loss) told.set(loss.id, (told.get(loss.id) ?? 0n) + loss.amount);
  }
  return told;
}

function lossOf(event: LedgerEvent): { readonly id: string; readonly amount: bigint } | undefined {
  if (event.type === 'write_off') return { id: event.requestId, amount: nano(event.amount) };
  if (event.type === 'repair_refused') return { id: event.id, amount: nano(event.amount) };
  return undefined;
}

/** Without its sign. */
function nano(usd: string): bigint {
  const [whole = '0', fraction = ''] = usd.replace('-', '').split('.');
  return BigInt(whole + fraction.padEnd(9, '0'));
}
