import type { KeyLimits } from '../../src/ledger/contract/key-records.ts';
import type { IdempotencyKey } from '../../src/ledger/contract/ledger-store.ts';
import { MAX_HIDDEN, type Plan, priceOf, promptTokensOf, toldUsage } from './provider.ts';

/** One life of a gateway: from its start to its death. */
export interface Incarnation {
  readonly name: string;
  readonly hasOutbox: boolean;
  died?: { readonly at: number; readonly how: 'killed' | 'power cut' | 'stopped' };
}

/** Who asks. */
export interface Caller {
  readonly account: string;
  readonly key: string;
  readonly externalKey: boolean;
  readonly limits: KeyLimits | undefined;
}

/** What a client sends. */
export interface Asked {
  readonly plan: Plan;
  readonly caller: Caller;
  readonly idempotencyKey: IdempotencyKey | undefined;
}

/** An admission as the store applied it. */
export interface Admission {
  /** By the store's clock. */
  readonly at: number;
  /** Start of the budget's window that it is in. */
  readonly window: number;
  /** What speaks against it. */
  readonly wrong: string | undefined;
  /** It was admitted in the one window in which a used idempotency key can be admitted again. */
  readonly isExcused: boolean;
}

/** What really became of a request, whatever the ledger believes. */
export class RequestTruth {
  readonly id: string;
  readonly account: string;
  readonly key: string;
  readonly limits: KeyLimits | undefined;
  readonly idempotencyKey: IdempotencyKey | undefined;
  readonly plan: Plan;
  readonly gateway: Incarnation;
  /** Its gateway had heard from the store before what time it is. */
  readonly knewTheTime: boolean;
  /** What it counts against its key's tokens per minute while it runs. */
  readonly tokens: number;
  state: 'asked' | 'refused' | 'running' | 'ended' = 'asked';
  /** What its client was told that refused it. */
  refusal: unknown;
  /** How often its admit came to a store. */
  admits = 0;
  /** What is held for it, as its gateway knows. */
  held: { readonly amount: bigint } = { amount: 0n };
  heldAtFirst = 0n;
  admission: Admission | undefined;
  /** It was applied again when the store had another request with its idempotency key. */
  isSucceeded = false;
  /** When the command was sent that its lease was taken or renewed by last. */
  renewedAt = -Infinity;
  /** Its provider has received it. */
  isSent = false;
  answerBegan = false;
  /** Tokens that the gateway got, and that went on to the client. */
  seen = 0;
  delivered = 0;
  endedAt = 0;
  /** What it may be charged, once it has ended; undefined where its hold is to be given back. */
  due: Due | undefined;
  /** What its gateway wanted to be posted: its charge, or `void`. */
  intent: bigint | 'void' | undefined;
  /** Tokens that it counts once it has ended. */
  tokensUsed: number | undefined;
  /** When the store settled or voided it, by the store's clock. */
  finishedAt: number | undefined;
  isAcknowledged = false;
  /** What its gateway was told that it was charged. */
  charged: bigint | undefined;
  /** What operators were told that it was not charged: as it was settled first, and as a repair applied it again. */
  readonly told = { writtenOff: 0n, refused: 0n };
  /** Its charge is in a file for an operator. */
  isDeadLetter = false;
  /** Who had posted what a failover then took. */
  readonly lostBy = new Set<Incarnation>();
  lostAt = 0;
  /** It was taken in a way that nobody promises to repair. */
  isForgiven = false;
  /** Gateway -> since when it knows from an answer that the store has this request. */
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

  /** Its client was served, or is. */
  get wasAdmitted(): boolean {
    return this.state === 'running' || this.state === 'ended';
  }
}

/** What an operator did, by the id of the grant, adjustment or key. */
export interface OperationTruth {
  readonly id: string;
  readonly account: string;
  /** Of a key that was made: its limits, or none. */
  readonly key: { readonly limits: KeyLimits | undefined } | undefined;
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
  { plan, delivered, held, isSent, answerBegan }: RequestTruth,
  ending: Ending,
  isTruthful: boolean,
): Due | undefined {
  const prompt = promptTokensOf(plan);
  const estimate = (outputTokens: number): Due => {
    // What was learned of counts that differ from our estimates corrects those by up to two, and by what seemed hidden.
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

/** The most that a checkpoint of it can have been. */
export function checkpointAtMost(
  { plan, seen, answerBegan, held }: RequestTruth,
  isTruthful: boolean,
): bigint {
  if (!answerBegan) return 0n;
  const [most, hidden] = isTruthful ? [1, 0] : [2, MAX_HIDDEN];
  const price = priceOf(most * promptTokensOf(plan), most * seen + hidden);
  return price < held.amount ? price : held.amount;
}

/** Everything that is known of a run from outside. */
export class Truth {
  readonly requests = new Map<string, RequestTruth>();
  readonly operations = new Map<string, OperationTruth>();
  /** Account, or account and key -> what was acknowledged last: frozen or not, or revoked. */
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

  /** API keys of an account that were made, and told to be. */
  *keysMade(account: string): Generator<{ readonly id: string; readonly limits: KeyLimits | undefined }> {
    for (const { id, account: of, key, isAcknowledged } of this.operations.values()) {
      if (key && of === account && isAcknowledged) yield { id, limits: key.limits };
    }
  }

  /** Requests of an API key, in the order in which they were asked. */
  ofKey(account: string, key: string): readonly RequestTruth[] {
    return this.#byKey.get(`${account} ${key}`) ?? [];
  }
}
