import { type Plan, priceOf, promptTokensOf, toldUsage } from './provider.ts';

/** One life of a gateway: from its start to its death. */
export interface Incarnation {
  readonly name: string;
  readonly hasOutbox: boolean;
  died?: { readonly at: number; readonly how: 'killed' | 'power cut' | 'stopped' };
}

/** What really became of a request, whatever the ledger believes. */
export interface RequestTruth {
  readonly id: string;
  readonly account: string;
  readonly plan: Plan;
  readonly gateway: Incarnation;
  /** Its gateway had heard from the store before what time it is. */
  readonly knewTheTime: boolean;
  state: 'asked' | 'refused' | 'running' | 'ended';
  hold: bigint;
  /** It took of the offline allowance. */
  isOffline: boolean;
  answerBegan: boolean;
  /** Tokens that the gateway got, and that went on to the client. */
  seen: number;
  delivered: number;
  endedAt: number;
  /** What it may be charged, once it has ended; undefined where its hold is to be given back. */
  due: Due | undefined;
  /** What its gateway wanted to be posted: its charge, or `void`. */
  intent: bigint | 'void' | undefined;
  isAcknowledged: boolean;
  /** What its gateway was told that it was charged. */
  charged: bigint | undefined;
  /** Its charge is in a file for an operator. */
  isDeadLetter: boolean;
  /** Who had posted what a failover then took. */
  readonly lostBy: Set<Incarnation>;
  lostAt: number;
  /** It was taken in a way that nobody promises to repair. */
  isForgiven: boolean;
}

/** What an operator did, by the id of the grant or adjustment. */
export interface OperationTruth {
  readonly id: string;
  readonly account: string;
  readonly amount: bigint;
  isAcknowledged: boolean;
  isDurable: boolean;
  /** By whom it was acknowledged. */
  by: Incarnation | undefined;
  readonly lostBy: Set<Incarnation>;
  isForgiven: boolean;
}

/** Both ends included. */
export interface Due {
  readonly least: bigint;
  readonly most: bigint;
}

export type Ending =
  | 'client_gone'
  | 'finished'
  | 'upstream_cut'
  | 'timeout'
  | 'upstream_error'
  | 'credits_exhausted';

/** What a request may be charged when it ends so, both ends included; undefined where it is given back. */
export function chargeFor(
  { plan, delivered, hold, answerBegan }: RequestTruth,
  ending: Ending,
  dispatched: boolean,
  isTruthful: boolean,
): Due | undefined {
  const prompt = promptTokensOf(plan);
  const estimate = (outputTokens: number): Due => {
    // What was learned of untrue counts corrects estimates by up to two.
    const [low, high] = isTruthful ? [1, 1] : [0.5, 2];
    const atMost = (charge: bigint): bigint => (charge < hold ? charge : hold);
    return {
      least: atMost(priceOf(Math.floor(low * prompt), Math.floor(low * outputTokens))),
      most: atMost(priceOf(Math.ceil(high * prompt), Math.ceil(high * outputTokens))),
    };
  };
  if (!dispatched) return undefined;
  if (!answerBegan) return ending === 'client_gone' ? estimate(0) : undefined;
  if (ending === 'finished') {
    const told = toldUsage(plan, delivered);
    if (!told) return estimate(delivered);
    const exact = priceOf(told.prompt, told.output);
    return { least: exact, most: exact };
  }
  if (ending === 'client_gone' || ending === 'credits_exhausted' || delivered > 0) return estimate(delivered);
  return undefined;
}

/** The most that a checkpoint of it can have been. */
export function checkpointAtMost(
  { plan, seen, answerBegan, hold }: RequestTruth,
  isTruthful: boolean,
): bigint {
  if (!answerBegan) return 0n;
  const most = isTruthful ? 1 : 2;
  const price = priceOf(most * promptTokensOf(plan), most * seen);
  return price < hold ? price : hold;
}

/** Everything that is known of a run from outside. */
export class Truth {
  readonly requests = new Map<string, RequestTruth>();
  readonly operations = new Map<string, OperationTruth>();
  /** Account, or account and key -> what was acknowledged last: frozen or not, or revoked. */
  readonly sanctions = new Map<string, { readonly frozen: boolean; readonly by: Incarnation }>();
}
