import { AdaptiveHold } from '../../src/billing/adaptive-hold.ts';
import type { Hold } from '../../src/billing/hold.ts';
import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import type { LedgerStore } from '../../src/ledger/contract/ledger-store.ts';
import { ReliableStore } from '../../src/ledger/reliability/reliable-store.ts';
import { RequestIds } from '../../src/ledger/contract/request-ids.ts';
import { clockOf, type StoreClock } from '../../src/ledger/contract/store-clock.ts';
import type { Quote } from '../../src/metering/estimate.ts';
import { UsageMeter } from '../../src/metering/usage-meter.ts';
import type { Outcome } from '../../src/billing/charge-policy.ts';
import { BillingService } from '../../src/billing/billing-service.ts';
import { changed } from './changed.ts';
import { Connection, type NetworkFaults, type StampedReply } from './connection.ts';
import type { Disk } from './disk.ts';
import { Leaving } from './leaving.ts';
import { chunkOf, END_MS, headOf, lastChunkOf, MODEL, type Plan, quoteOf, TARGET } from './provider.ts';
import type { Random } from './random.ts';
import type { StoreServer } from './store-server.ts';
import { type Asked, type Ending, type Incarnation, RequestTruth } from './truth.ts';
import { Actor, type VirtualTime } from './virtual-time.ts';

/** Configuration of the gateways of a world. */
export interface GatewayTerms {
  readonly leaseMs: number;
  readonly renewMs: number;
  readonly holdMode: 'clamp' | 'strict' | 'adaptive';
  /** The store may roll back, and is repaired. */
  readonly isReliable: boolean;
  readonly hasOutbox: boolean;
  readonly durableAfterMs: number | undefined;
  /** The store reports the identity of its server. */
  readonly tellsIdentity: boolean;
  /** Timeout for a silent provider. */
  readonly idleMs: number;
}

/** Replaces a part of a gateway, to plant a bug. */
export interface GatewayPlants {
  /** Between the gateway and its store. */
  readonly wire?: ((store: LedgerStore) => LedgerStore) | undefined;
  /** Between the reliable store and its users: billing and operators. */
  readonly store?: ((store: LedgerStore) => LedgerStore) | undefined;
  /** Its generator of request ids. */
  readonly idClock?: (() => number) | undefined;
  readonly disk?: ((files: Disk['files']) => Disk['files']) | undefined;
  /** The outcome of a request, as reported to billing. */
  readonly outcome?: ((outcome: Outcome) => Outcome) | undefined;
  readonly meter?: ((meter: UsageMeter) => UsageMeter) | undefined;
  /** The maximum cost of a request. */
  readonly quote?: ((quote: Quote) => Quote) | undefined;
  /** The output limit that is sent to a provider. */
  readonly outputLimit?: ((hold: Hold) => number | undefined) | undefined;
}

/** What a gateway wants to post: a charge with its tokens, or the release of the hold. */
export type Intent = { readonly amount: bigint; readonly tokens: number } | 'void';

/** What a gateway reports to the world. */
export interface GatewayWitness {
  readonly onRequest: (truth: RequestTruth) => void;
  readonly onAdmitted: (truth: RequestTruth) => void;
  readonly onEnded: (truth: RequestTruth, ending: Ending) => void;
  readonly onIntent: (gateway: Incarnation, requestId: string, intent: Intent) => void;
  readonly onSettled: (gateway: Incarnation, requestId: string, charged: string) => void;
  readonly onReply: (gateway: Incarnation, reply: StampedReply) => void;
  readonly onEvent: (gateway: Incarnation, event: LedgerEvent) => void;
  readonly onError: (gateway: Incarnation, error: Error, requestId: string | undefined) => void;
}

export interface GatewayOptions {
  readonly name: string;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly server: StoreServer;
  readonly disk: Disk;
  readonly faults: NetworkFaults;
  readonly terms: GatewayTerms;
  readonly plants: GatewayPlants;
  readonly witness: GatewayWitness;
}

/** A gateway process, with the real code that handles money; it runs from its creation. */
export class Gateway {
  readonly actor: Actor;
  readonly incarnation: Incarnation;
  readonly connection: Connection;
  /** The functions behind the operator's API. */
  readonly store: LedgerStore;
  readonly #options: GatewayOptions;
  readonly #settlements: BillingService;
  readonly #ids: RequestIds;
  readonly #clock: StoreClock;
  /** When it first learned its store's time, since its start. */
  heardAt = Infinity;
  /** Requests whose admission was acknowledged. */
  #closing = false;
  #running = 0;

  constructor(options: GatewayOptions) {
    this.#options = options;
    const { name, time, random, server, faults, terms, plants, witness } = options;
    this.actor = new Actor(name);
    this.incarnation = { name, hasOutbox: terms.isReliable && terms.hasOutbox };
    this.connection = new Connection({
      time,
      random,
      server,
      faults,
      actor: this.actor,
      durableAfterMs: terms.durableAfterMs,
      tellsIdentity: terms.tellsIdentity,
      onReply: (reply) => witness.onReply(this.incarnation, reply),
    });
    this.#clock = clockOf(this.connection);
    const store = this.#makeStore();
    this.store = plants.store?.(store) ?? store;
    this.#settlements = new BillingService({
      store: this.#watched(this.store),
      clock: this.#clock,
      settings: {
        holdMode: terms.holdMode,
        emptyAnswerIsFree: false,
        dimensions: undefined,
      },
      leaseMs: terms.leaseMs,
      renewMs: terms.renewMs,
      onSettled: ({ requestId, charged }) => witness.onSettled(this.incarnation, requestId, charged),
      onError: (error, requestId) => witness.onError(this.incarnation, error, requestId),
      tell: (event) => witness.onEvent(this.incarnation, event),
    });
    this.#ids = new RequestIds(plants.idClock ?? (() => this.#clock.now()), (below) => random.below(below));
  }

  /** Created as by the router. */
  #makeStore(): LedgerStore {
    const { terms, plants, disk, witness } = this.#options;
    const wire = this.#listening(plants.wire?.(this.connection) ?? this.connection);
    const files = plants.disk?.(disk.files) ?? disk.files;
    const tell = (event: LedgerEvent): void => witness.onEvent(this.incarnation, event);
    const onError = (error: Error, requestId: string): void =>
      witness.onError(this.incarnation, error, requestId);
    if (!terms.isReliable) {
      return new ReliableStore({
        store: changed(wire, { mayRollBack: false }),
        clock: this.#clock,
        tell,
        onError,
      });
    }
    return new ReliableStore({
      store: wire,
      clock: this.#clock,
      tell,
      onError,
      ...(terms.hasOutbox && { outbox: files }),
    });
  }

  /** The connection to the store; records the time of its first answer. */
  #listening(wire: LedgerStore): LedgerStore {
    return changed(wire, {
      admit: async (command) => {
        const result = await wire.admit(command);
        this.heardAt = Math.min(this.heardAt, this.#options.time.now);
        return result;
      },
    });
  }

  /** The store; reports the posting of each request before sending it. */
  #watched(store: LedgerStore): LedgerStore {
    const { witness } = this.#options;
    return changed(store, {
      settle: (command) => {
        const { requestId, amount, usage } = command;
        const tokens = usage.promptTokens + usage.completionTokens;
        witness.onIntent(this.incarnation, requestId, { amount, tokens });
        return store.settle(command);
      },
      void: (command) => {
        witness.onIntent(this.incarnation, command.requestId, 'void');
        return store.void(command);
      },
    });
  }

  /** Called in the gateway's own time: `ready` posts the outbox of an earlier process. */
  start(sweepMs: number): void {
    this.store.ready?.().catch(() => {});
    setInterval(() => {
      this.store.sweep(100).catch(() => {});
    }, sweepMs);
  }

  /** It was told to stop. */
  get isClosing(): boolean {
    return this.#closing;
  }

  kill(how: 'killed' | 'power cut' | 'stopped'): void {
    this.actor.alive = false;
    this.incarnation.died = { at: this.#options.time.now, how };
    this.connection.close().catch(() => {});
  }

  /** Like `router.close()`. */
  async stop(closeTimeoutMs: number): Promise<void> {
    this.#closing = true;
    const until = Date.now() + closeTimeoutMs;
    while (this.#running > 0 && Date.now() < until) await sleep(100);
    await Promise.race([this.#settlements.drain(), sleep(closeTimeoutMs)]);
    await this.store.close();
    this.kill('stopped');
  }

  /** A client's request, from arrival to end; undefined if it gets no answer at all. */
  async serve(asked: Asked): Promise<RequestTruth | undefined> {
    if (this.#closing) return undefined;
    this.#running += 1;
    const { witness, time, plants } = this.#options;
    const { plan } = asked;
    const leaves = new Leaving(plan.leaves);
    const quote = plants.quote?.(quoteOf(plan)) ?? quoteOf(plan);
    const truth = new RequestTruth(this.#ids.next(), asked, {
      gateway: this.incarnation,
      knewTheTime: this.heardAt < time.now,
      tokens: quote.tokens,
    });
    witness.onRequest(truth);
    try {
      let hold: Hold;
      try {
        hold = await this.#admit(asked, truth.id, quote);
      } catch (error) {
        truth.state = 'refused';
        truth.refusal = error;
        return truth;
      }
      truth.state = 'running';
      truth.held = hold;
      truth.heldAtFirst = hold.amount;
      witness.onAdmitted(truth);
      const outcome = this.#said(await this.#run(plan, truth, hold, leaves));
      truth.state = 'ended';
      truth.endedAt = time.now;
      witness.onEnded(truth, outcome.ending as Ending);
      hold.settle(outcome);
      return truth;
    } finally {
      leaves.forget();
      this.#running -= 1;
    }
  }

  /** As the gateway says it. */
  #said(outcome: Outcome): Outcome {
    return this.#options.plants.outcome?.(outcome) ?? outcome;
  }

  async #admit({ plan, caller, idempotencyKey }: Asked, requestId: string, quote: Quote): Promise<Hold> {
    const { account, key, externalKey } = caller;
    const { hold, refusal } = await this.#settlements.admit({
      requestId,
      caller: { account, key, externalKey },
      model: MODEL,
      quote,
      stream: plan.stream,
      idempotencyKey,
      endUser: undefined,
      dimensions: undefined,
      startedAt: performance.now(),
    });
    if (!hold) throw refusal ?? new Error('its key was changed');
    return hold;
  }

  /** The part of chat-completions.ts between admission and settlement. */
  async #run(plan: Plan, truth: RequestTruth, hold: Hold, leaves: Leaving): Promise<Outcome> {
    const target = TARGET;
    if (leaves.left || (await leaves.during('connect', plan.connectMs))) {
      return { ending: 'client_gone', target, dispatched: false };
    }
    truth.isSent = true;
    if (await leaves.during('head', plan.headMs)) return { ending: 'client_gone', target, dispatched: true };
    if (plan.answer === 'none') return { ending: 'upstream_error', target, dispatched: false };

    const { plants } = this.#options;
    const meter = plants.meter?.(new UsageMeter()) ?? new UsageMeter();
    const status = plan.answer === 'whole' ? 200 : 500;
    hold.watch(target, meter);
    const gate = hold.grows ? new AdaptiveHold(hold, meter) : undefined;
    const { ending, withheld } =
      status === 200
        ? await this.#relay(plan, truth, { hold, meter, gate, leaves })
        : { ending: 'finished' as const };
    meter.end();
    const delivered = withheld ? gate?.delivered : undefined;
    return { ending, target, dispatched: true, answer: { status, meter, delivered } };
  }

  /** Relays the answer, as relay-answer.ts does. */
  async #relay(
    plan: Plan,
    truth: RequestTruth,
    { hold, meter, gate, leaves }: Relayed,
  ): Promise<{ readonly ending: Ending; readonly withheld?: boolean }> {
    const { terms, plants } = this.#options;
    truth.answerBegan = true;
    meter.write(headOf(plan));
    const told = plants.outputLimit ? plants.outputLimit(hold) : hold.outputLimit;
    const limit = plan.overDelivers ? Infinity : (told ?? Infinity);
    for (const planned of plan.chunks) {
      if (await leaves.during('answer', plan.gapMs)) return { ending: 'client_gone' };
      const tokens = Math.min(planned, limit - truth.seen);
      if (tokens === 0) break;
      meter.write(chunkOf(plan, tokens));
      truth.seen += tokens;
      if (gate && !gate.canSend()) {
        const refusal = await Promise.race([gate.waitUntilAllowed(), leaves.leaving]);
        if (refusal === 'left') return { ending: 'client_gone', withheld: true };
        if (refusal) return { ending: 'credits_exhausted', withheld: true };
      }
      truth.delivered = truth.seen;
    }
    if (plan.end === 'cut') return { ending: 'upstream_cut' };
    if (plan.end === 'stall') {
      return { ending: (await leaves.during('end', terms.idleMs)) ? 'client_gone' : 'timeout' };
    }
    if (plan.leaves?.step === 'end' && (await leaves.during('end', END_MS))) return { ending: 'client_gone' };
    meter.write(lastChunkOf(plan, truth.seen));
    return { ending: 'finished' };
  }
}

/** The parts that an answer passes through. */
interface Relayed {
  readonly hold: Hold;
  readonly meter: UsageMeter;
  readonly gate: AdaptiveHold | undefined;
  readonly leaves: Leaving;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
