import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import type { Admit, AdmitResult, SettleResult } from '../../src/ledger/contract/ledger-store.ts';
import { parseUsd } from '../../src/ledger/contract/money.ts';
import { Disk } from './disk.ts';
import { EventLog } from './event-log.ts';
import { hasSuccessor, judge } from './admissions.ts';
import { Gateway, type GatewayTerms, type GatewayWitness } from './gateway.ts';
import { wrongAdmit, wrongState } from './invariants.ts';
import type { StampedReply } from './connection.ts';
import type { Plant } from './plants.ts';
import { Random } from './random.ts';
import { Rollbacks } from './rollbacks.ts';
import { type Entry, StoreServer } from './store-server.ts';
import { type Account, drawSwarm, type Swarm } from './swarm.ts';
import { chargeFor, type Incarnation, type RequestTruth, Truth } from './truth.ts';
import { Actor, VirtualTime } from './virtual-time.ts';

/** Duration of the fault phase. */
export const TROUBLE_MS = 600_000;
/** How long after the fault phase a gateway may still refuse an account. */
export const SERVES_WITHIN_MS = 5000;
/** Average number of commands between two checks of a snapshot. */
const CHECK_EVERY = 24;
/** Maximum delay of a command that arrives. */
export const MAX_ON_ITS_WAY_MS = 12_000;
/** Maximum delay on a connection without late answers. */
const SOUND_LATENCY_MS = 50;
/** Interval at which a gateway ends leases that ran out. */
const SWEEP_MS = 15_000;

/** Triggers of a fault: a gateway wants to post a request, or the store applied such a command. */
export const MOMENTS = [
  'intent',
  'admit',
  'extend',
  'settle',
  'void',
  'grant',
  'adjust',
  'freeze',
  'revokeKey',
] as const;
export type Moment = (typeof MOMENTS)[number];

/** A slot in which one gateway runs at a time. */
export interface Slot {
  readonly index: number;
  readonly machine: Disk;
  lives: number;
  gateway: Gateway | undefined;
}

/** Everything created from a seed: gateways, store, clients, providers, operators, and time. */
export class World {
  readonly swarm: Swarm;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly log: EventLog;
  readonly truth = new Truth();
  readonly server: StoreServer;
  readonly slots: readonly Slot[];
  readonly machines: readonly Disk[];
  /** Schedules everything that happens to the other parts. */
  readonly fate = new Actor('fate');
  readonly incarnations = new Map<string, Incarnation>();
  readonly events: { readonly by: Incarnation; readonly event: LedgerEvent; readonly at: number }[] = [];
  /** Number of events, by name. */
  readonly counts = new Map<string, number>();
  /** Voided requests that no failover has lost since. */
  readonly voided = new Set<string>();
  readonly rollbacks: Rollbacks;
  readonly #plant: Plant;
  readonly #ambushes: {
    readonly moment: Moment;
    readonly delayMs: number;
    readonly strike: (slot: Slot) => void;
  }[] = [];
  violation: string | undefined;
  storeClockStepped = false;
  /** Since when there is no fault: the store answers all gateways. */
  calmSince = -Infinity;

  constructor(seed: number, plant: Plant = {}, keptLines = 400) {
    this.log = new EventLog(keptLines);
    this.#plant = plant;
    const random = new Random(seed);
    this.random = random;
    const swarm = drawSwarm(random.fork(), plant.focus);
    this.swarm = plant.swarm?.(swarm) ?? swarm;
    this.rollbacks = new Rollbacks(this);
    const mathRandom = random.fork();
    this.time = new VirtualTime(this.swarm.startsAt, () => mathRandom.next());
    this.server = new StoreServer({
      time: this.time,
      plant: plant.server,
      onApplied: (entry, result) => this.#onApplied(entry, result),
      onMade: (entry) => this.#onMade(entry),
    });
    const { latencyMs, ...chances } = this.swarm.network;
    const isSound = Object.values(chances).every((chance) => chance === 0) && latencyMs <= SOUND_LATENCY_MS;
    if (!isSound || this.swarm.clockOffsets.some((ms) => ms !== 0)) this.calmSince = Infinity;
    const fate = this.fate;
    this.machines = Array.from(
      { length: this.swarm.machines },
      () =>
        new Disk({
          random: random.fork(),
          now: () => this.time.now,
          sleep: (ms) => new Promise((resolve) => this.time.after(fate, ms, resolve)),
        }),
    );
    this.slots = Array.from({ length: this.swarm.gateways }, (_, index) => ({
      index,
      machine: this.machines[index % this.machines.length]!,
      lives: 0,
      gateway: undefined,
    }));
  }

  /** Reports a violation. */
  fail(violation: string): void {
    this.violation ??= violation;
    this.log.add(`${this.#clock()} VIOLATION ${violation}`);
    this.time.stop();
  }

  /** An API key, with its account. */
  someKey(): { readonly account: Account; readonly key: Account['keys'][0] } {
    const { random, swarm } = this;
    const account = random.pick(swarm.accounts as [Account]);
    const keys = [...account.keys, ...this.truth.keysMade(account.id)] as [Account['keys'][0]];
    return { account, key: random.pick(keys) };
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  note(text: string): void {
    this.log.add(`${this.#clock()} ${text}`);
  }

  /** Runs something in a gateway, now. */
  start(slot: Slot): void {
    slot.lives += 1;
    const name = `gateway${slot.index}.${slot.lives}`;
    const gateway = new Gateway({
      name,
      time: this.time,
      random: this.random.fork(),
      server: this.server,
      disk: slot.machine,
      faults: this.swarm.network,
      terms: this.swarm.terms,
      plants: this.#plant,
      witness: this.#witness,
    });
    slot.gateway = gateway;
    gateway.actor.clockOffset = this.swarm.clockOffsets[slot.index] ?? 0;
    this.incarnations.set(name, gateway.incarnation);
    this.note(`${name} starts`);
    this.time.after(gateway.actor, 0, () => gateway.start(SWEEP_MS));
  }

  kill(slot: Slot, how: 'killed' | 'power cut' | 'stopped'): void {
    if (!slot.gateway) return;
    this.note(`${slot.gateway.actor.name} ${how}`);
    slot.gateway.kill(how);
    slot.gateway = undefined;
  }

  /** All connections to the store are lost. */
  loseConnections(): void {
    for (const { gateway } of this.slots) if (gateway?.actor.alive) this.loseConnection(gateway);
  }

  loseConnection(gateway: Gateway): void {
    this.time.after(gateway.actor, 0, () => gateway.connection.lose());
  }

  /** Cancels all faults that wait for a trigger. */
  calm(): void {
    this.#ambushes.length = 0;
  }

  /** Does something to the next gateway that does this, a moment later. */
  ambush(moment: Moment, delayMs: number, strike: (slot: Slot) => void): void {
    this.#ambushes.push({ moment, delayMs, strike });
  }

  #come(moment: string, by: string): void {
    if (this.#ambushes.length === 0) return;
    const slot = this.slots.find(({ gateway }) => gateway?.actor.name === by);
    const index = this.#ambushes.findIndex((each) => each.moment === moment);
    const [ambush] = slot && index >= 0 ? this.#ambushes.splice(index, 1) : [];
    if (ambush && slot) this.time.after(this.fate, ambush.delayMs, () => ambush.strike(slot));
  }

  /** Whether the counts of the providers equal the estimates. */
  get isTruthful(): boolean {
    const { lies, dense } = this.swarm.habits;
    return lies === 0 && dense === 0;
  }

  readonly #witness: GatewayWitness = {
    onRequest: (request) => {
      this.truth.add(request);
    },
    onAdmitted: ({ id, admission }) => {
      this.note(`${id} is served`);
      if (admission?.wrong !== undefined) this.fail(admission.wrong);
      if (admission?.isExcused === true) this.count('key admitted again in the unavoidable window');
    },
    onEnded: (request, ending) => {
      const { id, delivered, held } = request;
      this.note(`${id} ended: ${ending}, delivered ${delivered}, holding ${held.amount}`);
      request.due = chargeFor(request, ending, this.isTruthful);
    },
    onIntent: (gateway, requestId, wanted) => {
      const intent = wanted === 'void' ? 'void' : wanted.amount;
      this.note(`${gateway.name} wants ${requestId}: ${intent}`);
      this.#come('intent', gateway.name);
      const request = this.truth.requests.get(requestId);
      if (!request || request.state === 'refused' || request.state === 'asked') return;
      const { due } = request;
      const right =
        intent === 'void'
          ? due === undefined
          : due !== undefined && intent >= due.least && intent <= due.most;
      if (!right) {
        this.fail(`I14: ${requestId} is to be charged ${intent}, which costs ${due?.least} to ${due?.most}`);
      }
      if (request.intent !== undefined && request.intent !== intent) {
        this.fail(`I3: ${requestId} is to be charged ${request.intent}, and then ${intent}`);
      }
      if (intent !== 'void' && intent > request.heldAtFirst && keepsToHold(request, this.swarm.terms)) {
        this.fail(`${requestId} is to be charged ${intent}, and was admitted with ${request.heldAtFirst}`);
      }
      request.intent = intent;
      if (wanted !== 'void') request.tokensUsed = wanted.tokens;
    },
    onSettled: (gateway, requestId, charged) => {
      this.note(`${gateway.name} told of ${requestId}: ${charged}`);
      const request = this.truth.requests.get(requestId);
      if (!request) return;
      if (request.isAcknowledged) this.fail(`I3: ${requestId} was told to be settled twice`);
      request.isAcknowledged = true;
      request.charged = parseUsd(charged, 'charged');
    },
    onReply: (gateway, reply) => {
      const { name, about, code } = reply;
      this.rollbacks.onReply(gateway, reply);
      const request = this.truth.requests.get(about);
      const isThere =
        (name === 'admit' && (code === 'ok' || code === 'exists')) ||
        (name === 'settle' && (code === 'ok' || code === 'duplicate'));
      if (request) this.#checkLease(request, reply);
      if (request && isThere && !request.knownTo.has(gateway.name)) {
        request.knownTo.set(gateway.name, this.time.now);
      }
    },
    onEvent: (by, event) => {
      this.note(`${by.name} tells ${JSON.stringify(event)}`);
      this.events.push({ by, event, at: this.time.now });
      this.count(`event ${event.type}`);
      this.rollbacks.onEvent(by, event);
      if (event.type === 'dead_letter') {
        if (!this.storeClockStepped) this.fail(`${event.requestId} is a dead letter, and not old`);
        const request = this.truth.requests.get(event.requestId);
        if (request) request.isDeadLetter = true;
      }
    },
    onError: (gateway, error, requestId) => {
      this.note(`${gateway.name} error ${requestId ?? ''} ${error.message}`);
      const request = requestId === undefined ? undefined : this.truth.requests.get(requestId);
      if (request && error.message.startsWith('A charge could not be posted')) request.isDeadLetter = true;
    },
  };

  /** A renewed lease lasts for its full time, whatever the store's clock is set to. */
  #checkLease(request: RequestTruth, { name, code, sentAt }: StampedReply): void {
    const { leaseMs } = this.swarm.terms;
    if ((name === 'admit' || name === 'extend') && (code === 'ok' || code === 'exists')) {
      request.renewedAt = Math.max(request.renewedAt, sentAt);
    }
    const isEarly = this.time.now < request.renewedAt + leaseMs && this.rollbacks.lastAt < request.renewedAt;
    if (name === 'extend' && code === 'closed' && request.state === 'running' && isEarly) {
      this.fail(
        `${request.id} runs, and its lease was ended ${this.time.now - request.renewedAt} ms after its renewal`,
      );
    }
  }

  #onApplied(entry: Entry, result: unknown): void {
    const { name, about, account, from } = entry;
    const code = typeof result === 'object' && result !== null && 'code' in result ? String(result.code) : '';
    this.note(`store ${name} ${account} ${about} of ${from}: ${code}`);
    this.#come(name, from);
    this.rollbacks.onApplied(entry, code);
    if (code !== '') this.count(`${name} ${code}`);
    const isEnd = (name === 'settle' && code === 'ok') || (name === 'void' && VOIDED.has(code));
    const request = isEnd && this.truth.requests.get(about);
    if (request) request.finishedAt ??= entry.at;
    if (name === 'void' && VOIDED.has(code)) this.voided.add(about);
    if (name === 'settle' && code === 'ok') {
      this.rollbacks.onSettled(from, account, about);
      if (request && request.idempotencyKey && request.lostBy.size > 0) this.#checkSuccessor(entry, request);
      if ((result as Extract<SettleResult, { code: 'ok' }>).writtenOff > 0n) this.rollbacks.onWriteOff(about);
    }
    if (name === 'admit') {
      this.#onAdmit(entry, result as AdmitResult).catch((error: unknown) => this.fail(String(error)));
    } else if (this.random.chance(1 / CHECK_EVERY) && account !== '') {
      this.#check(account);
    }
  }

  /** A gateway that knew an account when it sent a command must not recreate it after its loss. */
  #onMade({ name, about, account, from, sentAt }: Entry): void {
    const knownSince = this.rollbacks.knownSince(from, account) ?? Infinity;
    if (knownSince < sentAt) {
      this.fail(`${name} ${about} of ${from} made ${account}, which ${from} knew and which was lost`);
    }
  }

  #checkSuccessor({ account, from }: Entry, request: RequestTruth): void {
    const ofKey = this.truth.ofKey(account, request.key);
    this.server
      .insideFor(from)
      .snapshot(account)
      .then(
        (state) => {
          if (state) request.isSucceeded ||= hasSuccessor(request, state, ofKey);
        },
        (error: unknown) => this.fail(String(error)),
      );
  }

  async #onAdmit({ run, about: id, account, from, sentAt, at }: Entry, result: AdmitResult): Promise<void> {
    const request = this.truth.requests.get(id);
    if (request) request.admits += 1;
    const isWrong = ['ahead', 'old'].includes(result.code) && !this.storeClockStepped;
    if (isWrong && request?.knewTheTime) {
      this.fail(`${id} is ${result.code}, though its gateway knew the time of the store`);
    }
    if (result.code !== 'ok') return;
    if (this.voided.has(id)) this.fail(`I10: ${id} was admitted after it was voided`);
    // Detects the command by passing it to a recording store.
    let admit: Admit | undefined;
    run({ admit: async (command: Admit) => (admit = command) } as never).catch(() => {});
    if (!admit) return;
    const state = await this.server.insideFor(from).snapshot(account);
    const wrong = wrongAdmit(admit, result, state);
    if (wrong !== undefined) this.fail(wrong);
    if (!request || !state) return;
    const ofKey = this.truth.ofKey(account, request.key);
    if (admit.restore) {
      if (request.idempotencyKey) request.isSucceeded ||= hasSuccessor(request, state, ofKey);
      return;
    }
    const hidden = this.rollbacks.hiddenFrom(from, account);
    const accountLimits = this.swarm.accounts.find((each) => each.id === account)?.limits;
    const ofAccount = accountLimits ? this.truth.ofAccount(account) : [];
    const about = { request, by: from, sentAt, at, state, hidden };
    const admission = judge({ ...about, ofKey, ofAccount, accountLimits });
    // What was lost with all the files can only be restored from a backup.
    const isJudged = !this.server.isEmpty && !this.storeClockStepped;
    request.admission = isJudged ? admission : { ...admission, wrong: undefined };
  }

  #check(account: string): void {
    this.server.inside.snapshot(account).then(
      (state) => {
        const wrong = state && wrongState(state);
        if (wrong !== undefined) this.fail(wrong);
      },
      (error: unknown) => this.fail(String(error)),
    );
  }

  #clock(): string {
    return (this.time.now - this.swarm.startsAt).toFixed(1).padStart(9);
  }
}

/** If the provider obeyed the output limit, which was computed for the longest prompt, the hold covers the cost. */
function keepsToHold({ plan }: RequestTruth, { holdMode }: GatewayTerms): boolean {
  const isHonest = !plan.overDelivers && (plan.usage === 'true' || plan.usage === 'omitted');
  return isHonest && holdMode !== 'adaptive';
}

const VOIDED: ReadonlySet<string> = new Set(['ok', 'duplicate', 'planted']);
