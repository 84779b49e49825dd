import type { KeyLimits } from '../../src/ledger/contract/key-records.ts';
import type { IdempotencyKey } from '../../src/ledger/contract/ledger-store.ts';
import { MAX_HIDDEN, type Plan, priceOf, promptTokensOf, toldUsage } from './provider.ts';

/** One lifetime of a gateway process. */
export interface Incarnation {
  readonly name: string;
  readonly hasOutbox: boolean;
  died?: { readonly at: number; readonly how: 'killed' | 'power cut' | 'stopped' };
}

/** The sender. */
export interface Caller {
  readonly account: string;
  readonly key: string;
  readonly externalKey: boolean;
  readonly limits: KeyLimits | undefined;
}

/** A request as sent by a client. */
export interface Asked {
  readonly plan: Plan;
  readonly caller: Caller;
  readonly idempotencyKey: IdempotencyKey | undefined;
}

/** An admission as the store applied it. */
export interface Admission {
  /** By the store's clock. */
  readonly at: number;
  /** Why it should have been refused, if so. */
  readonly wrong: string | undefined;
  /** It was admitted in the unavoidable window, in which a used idempotency key can be admitted again. */
  readonly isExcused: boolean;
}

/** The true outcome of a request, independent of the ledger. */
export class RequestTruth {
  readonly id: string;
  readonly account: string;
  readonly key: string;
  readonly limits: KeyLimits | undefined;
  readonly idempotencyKey: IdempotencyKey | undefined;
  readonly plan: Plan;
  readonly gateway: Incarnation;
  /** Its gateway knew the store's time by then. */
  readonly knewTheTime: boolean;
  /** Tokens counted against its key's tokens per minute while it runs. */
  readonly tokens: number;
  state: 'asked' | 'refused' | 'running' | 'ended' = 'asked';
  /** The error code that its client got. */
  refusal: unknown;
  /** Number of times its admit reached a store. */
  admits = 0;
  /** Its hold, as known to its gateway. */
  held: { readonly amount: bigint } = { amount: 0n };
  heldAtFirst = 0n;
  admission: Admission | undefined;
  /** It was replayed when the store had another request with its idempotency key. */
  isSucceeded = false;
  /** When the last command that took or renewed its lease was sent. */
  renewedAt = -Infinity;
  /** Its provider has received it. */
  isSent = false;
  answerBegan = false;
  /** Tokens that the gateway received, and those that it relayed to the client. */
  seen = 0;
  delivered = 0;
  endedAt = 0;
  /** The allowed charge, once it has ended; undefined if its hold must be released. */
  due: Due | undefined;
  /** What its gateway wanted to post: its charge, or `void`. */
  intent: bigint | 'void' | undefined;
  /** Tokens counted once it has ended. */
  tokensUsed: number | undefined;
  /** When the store settled or voided it, by the store's clock. */
  finishedAt: number | undefined;
  isAcknowledged = false;
  /** The charge that was acknowledged to its gateway. */
  charged: bigint | undefined;
  /** Write-offs reported to operators: at the first settle, and by a repair. */
  readonly told = { writtenOff: 0n, refused: 0n };
  /** Its charge is in a file for an operator. */
  isDeadLetter = false;
  /** Gateways whose posting of it was lost in a failover. */
  readonly lostBy = new Set<Incarnation>();
  lostAt = 0;
  /** It was lost in a way outside the repair guarantee. */
  isForgiven = false;
  /** Gateway -> when a reply first showed it that the store has this request. */
  readonly knownTo = new Map<string, number>();

  constructor(
    id: string,
    { plan, caller, idempotencyKey }: Asked,
    known: Pick<RequestTruth, 'gateway' | 'knewTheTime' | 'tokens'>,
  ) {
    this.id = id;
    this.plan = plan;
    this.account = caller.account;
    this.key = caller.key;
    this.limits = caller.limits;
    this.idempotencyKey = idempotencyKey;
    this.gateway = known.gateway;
    this.knewTheTime = known.knewTheTime;
    this.tokens = known.tokens;
  }

  /** Whether its client was served, or is being served. */
  get wasAdmitted(): boolean {
    return this.state === 'running' || this.state === 'ended';
  }
}

/** An operator's change, by the id of the grant, adjustment or key. */
export interface OperationTruth {
  readonly id: string;
  readonly account: string;
  /** The limits of a created key, if any. */
  readonly key: { readonly limits: KeyLimits | undefined } | undefined;
  readonly amount: bigint;
  isAcknowledged: boolean;
  isDurable: boolean;
  /** The gateway that acknowledged it. */
  by: Incarnation | undefined;
  readonly lostBy: Set<Incarnation>;
  isForgiven: boolean;
}

/** Inclusive range. */
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

/** The allowed charge of a request with this ending, inclusive; undefined if the hold must be released. */
export function chargeFor(
  { plan, delivered, held, isSent, answerBegan }: RequestTruth,
  ending: Ending,
  isTruthful: boolean,
): Due | undefined {
  const prompt = promptTokensOf(plan);
  const estimate = (outputTokens: number): Due => {
    // Calibration corrects estimates by a factor of up to two, and by seemingly hidden tokens.
    const [low, high, hidden] = isTruthful ? [1, 1, 0] : [0.5, 2, MAX_HIDDEN];
    const atMost = (charge: bigint): bigint => (charge < held.amount ? charge : held.amount);
    return {
      least: atMost(priceOf(Math.floor(low * prompt), Math.floor(low * outputTokens))),
      most: atMost(priceOf(Math.ceil(high * prompt), Math.ceil(high * outputTokens) + hidden)),
    };
  };
  if (!isSent) return undefined;
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

/** The maximum of its checkpoint. */
export function checkpointAtMost(
  { plan, seen, answerBegan, held }: RequestTruth,
  isTruthful: boolean,
): bigint {
  if (!answerBegan) return 0n;
  const [most, hidden] = isTruthful ? [1, 0] : [2, MAX_HIDDEN];
  const price = priceOf(most * promptTokensOf(plan), most * seen + hidden);
  return price < held.amount ? price : held.amount;
}

/** Everything known about a run from outside the ledger. */
export class Truth {
  readonly requests = new Map<string, RequestTruth>();
  readonly operations = new Map<string, OperationTruth>();
  /** Account, or account and key -> the last acknowledged state: frozen or not, or revoked. */
  readonly sanctions = new Map<string, { readonly frozen: boolean; readonly by: Incarnation }>();
  /** By account and key. */
  readonly #byKey = new Map<string, RequestTruth[]>();

  add(request: RequestTruth): void {
    this.requests.set(request.id, request);
    const name = `${request.account} ${request.key}`;
    const others = this.#byKey.get(name);
    if (others) others.push(request);
    else this.#byKey.set(name, [request]);
  }

  /** API keys of an account whose creation was acknowledged. */
  *keysMade(account: string): Generator<{ readonly id: string; readonly limits: KeyLimits | undefined }> {
    for (const { id, account: of, key, isAcknowledged } of this.operations.values()) {
      if (key && of === account && isAcknowledged) yield { id, limits: key.limits };
    }
  }

  /** Requests of an account. */
  ofAccount(account: string): readonly RequestTruth[] {
    return [...this.#byKey].flatMap(([name, requests]) => (name.startsWith(`${account} `) ? requests : []));
  }

  /** Requests of an API key, in order of arrival. */
  ofKey(account: string, key: string): readonly RequestTruth[] {
    return this.#byKey.get(`${account} ${key}`) ?? [];
  }
}
