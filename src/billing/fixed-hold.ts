import type { Answer } from '../async/answer.ts';
import { type Slot, SlotList } from '../async/slot-list.ts';
import type { Caller } from '../keys/caller.ts';
import type {
  AdmitResult,
  Dimensions,
  Ending,
  ExtendResult,
  IdempotencyKey,
  SettledUsage,
} from '../ledger/contract/ledger-store.ts';
import { formatUsd, type NanoDollars } from '../ledger/contract/money.ts';
import { textUsage } from '../metering/usage-dialects.ts';
import type { Settled } from '../observability/hooks.ts';
import type { HoldKeeper } from './hold-keeper.ts';
import type { Lease, LeasedHold } from './lease-renewal.ts';

/** What a hold of a fixed amount is taken for. */
export interface FixedHoldTerms {
  readonly requestId: string;
  readonly caller: Caller;
  /** As in the journal: what is sold, such as `images/flux`. */
  readonly model: string;
  /** As in the journal: who delivers it. */
  readonly provider: string;
  /** Counted against the key's tokens per minute. */
  readonly tokens: number;
  readonly idempotencyKey: IdempotencyKey | undefined;
  readonly endUser: string | undefined;
  readonly dimensions: Dimensions | undefined;
}

/** What was consumed, for the journal. */
export interface Consumption {
  readonly units: number | undefined;
  readonly promptTokens: number | undefined;
  readonly completionTokens: number | undefined;
  readonly cost: NanoDollars | undefined;
  readonly ending: Ending;
}

/** An amount that was consumed. */
export interface FixedCost {
  readonly amount: NanoDollars;
  readonly consumption: Consumption;
}

/** What was charged of a hold. */
export interface FixedCharge {
  readonly charged: NanoDollars;
  readonly writtenOff: NanoDollars;
}

/** A hold can't end as it was asked to, or its id stands for another hold. */
export class HoldConflictError extends Error {
  override readonly name = 'HoldConflictError';
  readonly code: 'already_settled' | 'already_voided' | 'id_reused';
  readonly requestId: string;

  constructor(code: HoldConflictError['code'], requestId: string) {
    super(
      {
        already_settled: `The hold ${requestId} is settled, so it can't be voided.`,
        already_voided: `The hold ${requestId} is voided, or its lease ended and another hold has its ID: nothing was charged.`,
        id_reused: `The ID was used for a hold of another model or amount: ${requestId}.`,
      }[code],
    );
    this.code = code;
    this.requestId = requestId;
  }
}

/** A hold of a fixed amount, for what is not a chat completion. It ends once: the first of its ends counts. */
export class FixedHold implements LeasedHold {
  readonly terms: FixedHoldTerms;
  readonly amount: NanoDollars;
  lease: Lease | undefined;
  /** What is charged if the router closes while it is open. */
  owed: FixedCost | undefined;
  readonly #holds: FixedHolds;
  readonly #openedAt = performance.now();
  #charge: Promise<FixedCharge> | undefined;
  #release: Promise<void> | undefined;

  constructor(holds: FixedHolds, terms: FixedHoldTerms, amount: NanoDollars) {
    this.#holds = holds;
    this.terms = terms;
    this.amount = amount;
  }

  get state(): 'open' | 'settled' | 'voided' {
    if (this.#charge) return 'settled';
    return this.#release ? 'voided' : 'open';
  }

  get openMs(): number {
    return Math.round(performance.now() - this.#openedAt);
  }

  renew(): Answer<ExtendResult> {
    return this.#holds.renew(this);
  }

  report(error: Error): void {
    this.#holds.keeper.onError(error, this.terms.requestId);
  }

  /**
   * Charges an amount, which may be more than what is held. A further call returns the charge of the first.
   *
   * @returns rejects with a HoldConflictError if it was voided
   */
  settle(amount: NanoDollars, consumption: Consumption): Promise<FixedCharge> {
    if (this.#release) return rejected(new HoldConflictError('already_voided', this.terms.requestId));
    return (this.#charge ??= this.#holds.settle(this, amount, consumption));
  }

  /**
   * Releases what is held.
   *
   * @returns rejects with a HoldConflictError if it was settled
   */
  void(ending: Ending): Promise<void> {
    if (this.#charge) return rejected(new HoldConflictError('already_settled', this.terms.requestId));
    return (this.#release ??= this.#holds.release(this, ending));
  }

  /** Ends it, because the router closes. */
  close(): void {
    if (!this.owed) void this.void('closed');
    else void this.settle(this.owed.amount, { ...this.owed.consumption, ending: 'closed' });
  }
}

/** The open holds of a router that have a fixed amount. */
export class FixedHolds {
  readonly keeper: HoldKeeper;
  readonly #onSettled: ((settled: Settled) => unknown) | undefined;
  readonly #open = new SlotList<FixedHold>();
  readonly #places = new WeakMap<FixedHold, Slot<FixedHold>>();
  #whenEmpty: (() => void)[] = [];

  constructor(keeper: HoldKeeper, onSettled: ((settled: Settled) => unknown) | undefined) {
    this.keeper = keeper;
    this.#onSettled = onSettled;
  }

  /**
   * Asks for a hold of the whole amount.
   *
   * @returns the hold if it was admitted, else the reason why not
   * @throws {CreditStoreUnavailableError} if the store did not answer
   */
  async open(
    terms: FixedHoldTerms,
    amount: NanoDollars,
  ): Promise<{ readonly result: AdmitResult; readonly hold: FixedHold | undefined }> {
    const { requestId, caller, model, tokens, idempotencyKey, endUser } = terms;
    const { account, key, externalKey, keyVersion, accountVersion, session } = caller;
    const admit = {
      account,
      key,
      externalKey,
      keyVersion,
      accountVersion,
      endUser,
      requestId,
      model,
      want: amount,
      min: amount,
      tokens,
      leaseMs: this.keeper.leaseMs,
      notAfter: this.keeper.admitBy,
      ...(idempotencyKey && { idempotencyKey }),
    };
    const result = await this.keeper.admit(admit, session);
    if (result.code === 'frozen') this.keeper.tell({ type: 'frozen', account, requestId });
    const isHeld = result.code === 'ok' || result.code === 'exists';
    return { result, hold: isHeld ? this.#keep(terms, result.hold) : undefined };
  }

  /**
   * Keeps a hold that the store has, as of an earlier process. Its lease is renewed first: it may be about to end.
   *
   * @returns undefined if it has ended meanwhile
   */
  async takeOver(terms: FixedHoldTerms, amount: NanoDollars): Promise<FixedHold | undefined> {
    const { code } = await this.renew({ terms, amount });
    if (code === 'closed' || code === 'unknown') return undefined;
    return this.find(terms.requestId) ?? this.#keep(terms, amount);
  }

  #keep(terms: FixedHoldTerms, amount: NanoDollars): FixedHold {
    const hold = new FixedHold(this, terms, amount);
    this.#places.set(hold, this.#open.add(hold));
    this.keeper.renewal.add(hold);
    return hold;
  }

  find(requestId: string): FixedHold | undefined {
    return this.#open.values().find(({ terms }) => terms.requestId === requestId);
  }

  /** Resolves when no hold is open. */
  ended(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenEmpty.push(resolve);
    });
  }

  /** Ends the holds that are still open: the router closes. */
  close(): void {
    for (const hold of this.#open.values()) hold.close();
  }

  renew({ terms, amount }: Pick<FixedHold, 'terms' | 'amount'>): Answer<ExtendResult> {
    const { store, leaseMs } = this.keeper;
    const { requestId, caller } = terms;
    return store.extend({ account: caller.account, requestId, hold: amount, leaseMs, checkpoint: 0n });
  }

  settle(hold: FixedHold, amount: NanoDollars, consumption: Consumption): Promise<FixedCharge> {
    this.#end(hold);
    const { requestId, caller, model, idempotencyKey, endUser, dimensions } = hold.terms;
    const { account } = caller;
    return this.#posting(requestId, async () => {
      const result = await this.keeper.store.settle({
        account,
        requestId,
        amount,
        key: caller.key,
        model,
        usage: settledUsage(hold, consumption),
        endUser,
        dimensions,
        force: true,
        ...(this.keeper.watchesBudgets && { watchesBudgets: true }),
        ...(idempotencyKey && { idempotencyKey }),
      });
      if (result.code === 'voided') throw new HoldConflictError('already_voided', requestId);
      if (result.code !== 'ok' && result.code !== 'duplicate') {
        // Nothing was charged, and nothing will be.
        this.#tell(hold, consumption, undefined, undefined);
        throw new Error(`A charge could not be posted: the store says ${result.code}`);
      }
      const { charged, writtenOff = 0n } = result;
      const available = result.code === 'ok' ? result.available : undefined;
      this.keeper.charged(account, requestId, hold.amount, result);
      this.#tell(hold, consumption, { charged, writtenOff }, available);
      return { charged, writtenOff };
    });
  }

  release(hold: FixedHold, ending: Ending): Promise<void> {
    this.#end(hold);
    const { requestId, caller, model, provider, dimensions } = hold.terms;
    const { account, key } = caller;
    return this.#posting(requestId, async () => {
      const ended = { key, model, ending, provider, dimensions };
      const result = await this.keeper.store.void({ account, requestId, ...ended });
      if (result.code === 'settled') throw new HoldConflictError('already_settled', requestId);
      const available = result.code === 'ok' ? result.available : undefined;
      this.#tell(hold, { ...NOTHING_CONSUMED, ending }, undefined, available);
    });
  }

  #end(hold: FixedHold): void {
    this.keeper.renewal.delete(hold);
    const place = this.#places.get(hold);
    if (place) this.#open.delete(place);
    if (this.#open.size > 0) return;
    for (const resolve of this.#whenEmpty.splice(0)) resolve();
  }

  /** Its rejection is reported, whether or not the caller looks at it. */
  #posting<T>(requestId: string, post: () => Promise<T>): Promise<T> {
    const posted = post();
    this.keeper.track(requestId, posted);
    return posted;
  }

  #tell(
    { terms }: FixedHold,
    consumption: Consumption,
    charge: FixedCharge | undefined,
    available: NanoDollars | undefined,
  ): void {
    if (!this.#onSettled) return;
    const { requestId, caller, model, provider, dimensions } = terms;
    const { promptTokens, completionTokens, cost, ending } = consumption;
    const { charged, writtenOff } = charge ?? { charged: 0n, writtenOff: 0n };
    this.#onSettled({
      requestId,
      account: caller.account,
      key: caller.key,
      ...(dimensions && { dimensions }),
      model,
      provider,
      upstreamModel: model,
      charged: formatUsd(charged),
      writtenOff: formatUsd(writtenOff),
      ...(available !== undefined && { available: formatUsd(available) }),
      ...(cost !== undefined && { cost: formatUsd(cost) }),
      voided: charge === undefined,
      ...(charge && { usage: textUsage(promptTokens ?? 0, completionTokens ?? 0) }),
      usageSource: charge ? 'upstream' : 'none',
      ending,
    });
  }
}

export const NOTHING_CONSUMED: Consumption = {
  units: undefined,
  promptTokens: undefined,
  completionTokens: undefined,
  cost: undefined,
  ending: 'finished',
};

function settledUsage({ terms, openMs }: FixedHold, consumption: Consumption): SettledUsage {
  const { units, promptTokens = 0, completionTokens = 0, cost, ending } = consumption;
  return {
    promptTokens,
    cachedTokens: 0,
    completionTokens,
    reasoningTokens: 0,
    source: 'upstream',
    price: 'fixed',
    ending,
    provider: terms.provider,
    durationMs: openMs,
    streamed: false,
    ...(cost !== undefined && { cost }),
    ...(units !== undefined && { units }),
  };
}

async function rejected(error: Error): Promise<never> {
  throw error;
}
