import type { LedgerEvent } from '../../src/ledger/events.ts';
import type { Admit, AdmitResult } from '../../src/ledger/ledger.ts';
import { parseUsd } from '../../src/ledger/money.ts';
import { Disk } from './disk.ts';
import { EventLog } from './event-log.ts';
import { type Caller, Gateway, type GatewayWitness } from './gateway.ts';
import { wrongAdmit, wrongState } from './invariants.ts';
import type { Plant } from './plants.ts';
import { planRequest } from './provider.ts';
import { Random } from './random.ts';
import { type Entry, StoreServer } from './store-server.ts';
import { drawSwarm, type Swarm } from './swarm.ts';
import { chargeFor, type Incarnation, Truth } from './truth.ts';
import { Actor, VirtualTime } from './virtual-time.ts';

/** Noon of a Wednesday, in UTC. */
export const START = Date.UTC(2026, 0, 14, 12);
/** How long things go wrong. */
export const TROUBLE_MS = 600_000;
/** A snapshot is compared with itself after so many commands, on the average. */
const CHECK_EVERY = 24;
/** A command arrives by then, or never. */
const LONGEST_ON_ITS_WAY_MS = 12_000;
/** How often a gateway ends leases that nobody renews. */
const SWEEP_MS = 15_000;

/** When a fault may wait for its chance: a gateway wants a settlement, or the store took such a command. */
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

/** A place where one gateway runs at a time. */
export interface Slot {
  readonly index: number;
  readonly machine: Disk;
  lives: number;
  gateway: Gateway | undefined;
}

/** Everything that a seed makes: gateways, store, clients, providers, operators, and time. */
export class World {
  readonly swarm: Swarm;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly log: EventLog;
  readonly truth = new Truth();
  readonly server: StoreServer;
  readonly slots: readonly Slot[];
  readonly machines: readonly Disk[];
  /** Makes what happens to the others happen. */
  readonly fate = new Actor('fate');
  readonly incarnations = new Map<string, Incarnation>();
  readonly events: { readonly by: Incarnation; readonly event: LedgerEvent; readonly at: number }[] = [];
  /** How often what happened. */
  readonly counts = new Map<string, number>();
  /** Requests that were voided, and that no failover has taken since. */
  readonly #voided = new Set<string>();
  /** Of each life and account: where the journal was. */
  readonly positions = new Map<string, { seq: bigint; at: number }>();
  /** Who saw, or repaired, that an account went back in time after `since`. */
  readonly falls: { readonly by: Incarnation; readonly account: string; readonly since: number }[] = [];
  /** What arrives may be a copy of what arrived before. */
  readonly #comesTwice: boolean;
  readonly #plant: Plant;
  readonly #ambushes: {
    readonly moment: Moment;
    readonly delayMs: number;
    readonly strike: (slot: Slot) => void;
  }[] = [];
  violation: string | undefined;
  rollbacks = 0;
  storeClockStepped = false;
  /** When something was lost last that nobody promises to repair. */
  forgivenAt = 0;

  constructor(seed: number, plant: Plant = {}, keptLines = 400) {
    this.log = new EventLog(keptLines);
    this.#plant = plant;
    const random = new Random(seed);
    this.random = random;
    this.swarm = drawSwarm(random.fork(), plant.focus);
    const { duplicate, delay } = this.swarm.network;
    this.#comesTwice = duplicate > 0 || delay > 0;
    const mathRandom = random.fork();
    this.time = new VirtualTime(START, () => mathRandom.next());
    this.server = new StoreServer({
      time: this.time,
      plant: plant.server,
      onApplied: (entry, result) => this.#onApplied(entry, result),
    });
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

  /** Something that must never be. */
  fail(violation: string): void {
    this.violation ??= violation;
    this.log.add(`${this.#clock()} VIOLATION ${violation}`);
    this.time.stop();
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

  /** Everybody's connection to the store is lost. */
  loseConnections(): void {
    for (const { gateway } of this.slots) if (gateway?.actor.alive) this.loseConnection(gateway);
  }

  loseConnection(gateway: Gateway): void {
    this.time.after(gateway.actor, 0, () => gateway.connection.lose());
  }

  /**
   * Commands that were acknowledged, perhaps, and are gone.
   *
   * @param how - nobody promises to repair what was lost without a sign, or with all the files
   */
  lose(lost: readonly Entry[], how: 'failed over' | 'unnoticed' | 'emptied' = 'failed over'): void {
    const isForgiven = how !== 'failed over';
    this.rollbacks += 1;
    if (isForgiven) this.forgivenAt = this.time.now;
    for (const { from, name, about, account } of lost) {
      const by = this.incarnations.get(from);
      if (!by || about === '') continue;
      this.note(`lost: ${name} ${about} of ${from}`);
      if (name === 'void') this.#voided.delete(about);
      const request = this.truth.requests.get(about);
      if (request) request.lostAt = this.time.now;
      const operation = this.truth.operations.get(about);
      if (operation && how === 'emptied') operation.isDurable = false;
      for (const each of [request, operation]) {
        each?.lostBy.add(by);
        if (each && isForgiven) each.isForgiven = true;
      }
      if (isForgiven && name === 'freeze') this.truth.sanctions.delete(account);
      if (isForgiven && name === 'revokeKey') this.truth.sanctions.delete(`${account} ${about}`);
    }
    if (how === 'emptied') this.#forgiveUnrepaired();
  }

  /** Where the accounts are gone, nobody repairs any more what failovers took of them before. */
  #forgiveUnrepaired(): void {
    const { requests, operations, sanctions } = this.truth;
    for (const request of requests.values()) {
      request.isForgiven ||= request.lostBy.size > 0 && !this.server.has('settle', request.id);
    }
    for (const operation of operations.values()) {
      const { id, lostBy } = operation;
      const isThere = this.server.has('grant', id) || this.server.has('adjust', id);
      operation.isForgiven ||= lostBy.size > 0 && !isThere;
    }
    sanctions.clear();
  }

  /** No fault waits for its chance any more. */
  calm(): void {
    this.#ambushes.length = 0;
  }

  /** Does something to the gateway that next does this, a moment later. */
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

  /** A client comes, to some gateway. */
  ask(): void {
    const { random, swarm } = this;
    const plan = planRequest(random, swarm.habits);
    const account = random.pick(swarm.accounts as [Swarm['accounts'][0]]);
    const key = random.pick(account.keys as [(typeof account.keys)[0]]);
    const caller: Caller = { account: account.id, key: key.id, externalKey: account.externalKeys };
    const slot = this.slots[random.below(this.slots.length)];
    const gateway = slot?.gateway;
    if (!gateway) return;
    this.time.after(gateway.actor, 0, () => {
      gateway.serve(plan, caller).catch((error: unknown) => this.fail(`a request broke: ${String(error)}`));
    });
  }

  readonly #witness: GatewayWitness = {
    onRequest: (truth) => {
      this.truth.requests.set(truth.id, truth);
    },
    onEnded: (truth, ending, dispatched) => {
      this.note(`${truth.id} ended: ${ending}, delivered ${truth.delivered}, holding ${truth.hold}`);
      truth.due = chargeFor(truth, ending, dispatched, this.swarm.habits.lies === 0);
    },
    onIntent: (gateway, requestId, intent) => {
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
      request.intent = intent;
    },
    onSettled: (gateway, requestId, charged) => {
      this.note(`${gateway.name} told of ${requestId}: ${charged}`);
      const request = this.truth.requests.get(requestId);
      if (!request) return;
      if (request.isAcknowledged) this.fail(`I3: ${requestId} was told to be settled twice`);
      request.isAcknowledged = true;
      request.charged = parseUsd(charged, 'charged');
    },
    onReply: (gateway, account, sentAt, seq) => {
      const key = `${gateway.name} ${account}`;
      const position = this.positions.get(key);
      if (!position && seq === 0n) return;
      if (!position) {
        this.positions.set(key, { seq, at: this.time.now });
        return;
      }
      const fell = seq < position.seq && sentAt > position.at;
      if (fell) this.#fell(gateway, account, position.at);
      if (seq > position.seq || fell) {
        position.seq = seq;
        position.at = this.time.now;
      }
    },
    onEvent: (by, event) => {
      this.note(`${by.name} tells ${JSON.stringify(event)}`);
      this.events.push({ by, event, at: this.time.now });
      this.count(`event ${event.type}`);
      if (event.type === 'rollback_repaired') this.#checkRepair(by, event.account);
      if (event.type === 'repair_refused') this.#onRefused(event.id, event.code);
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

  #onApplied(entry: Entry, result: unknown): void {
    const { name, about, account, from, run } = entry;
    const code = typeof result === 'object' && result !== null && 'code' in result ? String(result.code) : '';
    this.note(`store ${name} ${account} ${about} of ${from}: ${code}`);
    this.#come(name, from);
    if (code !== '') this.count(`${name} ${code}`);
    if (name === 'void' && VOIDED.has(code)) this.#voided.add(about);
    if (name === 'settle' && code === 'ok') this.#onSettle(from, account, about);
    // Whoever knew an account makes nothing of that name anew, unless it was lost since the look before;
    // a process that never saw it can't know.
    const makes = (name === 'grant' || name === 'createKey') && code === 'ok' && seqOf(result) <= 1n;
    const isOld = this.time.now - this.forgivenAt > LONGEST_ON_ITS_WAY_MS;
    if (makes && isOld && this.server.isEmpty && this.positions.has(`${from} ${account}`)) {
      this.fail(`${name} ${about} made an account anew that was lost`);
    }
    if (name === 'admit') this.#onAdmit(run, about, result as AdmitResult);
    else if (this.random.chance(1 / CHECK_EVERY) && account !== '') this.#check(account);
  }

  /** What is lost for ever is told to operators, with a reason. */
  #onRefused(id: string, code: string): void {
    const request = this.truth.requests.get(id);
    const operation = this.truth.operations.get(id);
    const reasons = request ? ['old'] : ['below_floor', 'too_big', 'too_many_lots'];
    if (!reasons.includes(code)) this.fail(`${id} was lost, and is not repeated because of ${code}`);
    if (request) request.isDeadLetter = true;
    if (operation) operation.isForgiven = true;
  }

  /** What was acknowledged to a process, and is posted again by it, was lost and repaired. */
  #onSettle(from: string, account: string, requestId: string): void {
    const request = this.truth.requests.get(requestId);
    const by = this.incarnations.get(from);
    if (!request?.isAcknowledged || !by || request.gateway !== by || this.#comesTwice) return;
    this.#fell(by, account, request.lostAt);
  }

  #fell(by: Incarnation, account: string, since: number): void {
    const last = this.events.findLast(
      (each) =>
        each.by === by &&
        (each.event.type === 'rollback' || each.event.type === 'rollback_repaired') &&
        each.event.account === account,
    );
    // What is lost while it is repaired is of the same repair.
    if (last?.event.type === 'rollback') return;
    this.falls.push({ by, account, since });
  }

  #onAdmit(run: Entry['run'], requestId: string, result: AdmitResult): void {
    const isWrong = ['ahead', 'old'].includes(result.code) && !this.storeClockStepped;
    if (isWrong && this.truth.requests.get(requestId)?.knewTheTime) {
      this.fail(`${requestId} is ${result.code}, though its gateway knew the time of the store`);
    }
    if (result.code !== 'ok') return;
    if (this.#voided.has(requestId)) this.fail(`I10: ${requestId} was admitted after it was voided`);
    const { hold, now } = result;
    const store = this.server.inside;
    // What the command was is seen by handing it to somebody who only looks.
    let admit: Admit | undefined;
    run({ admit: async (command: Admit) => (admit = command) } as never).catch(() => {});
    if (!admit) return;
    wrongAdmit(admit, hold, now, store).then(
      (wrong) => wrong !== undefined && this.fail(wrong),
      (error: unknown) => this.fail(String(error)),
    );
  }

  /** Whoever says that an account is repaired has taken again the holds of its running requests. */
  #checkRepair(by: Incarnation, account: string): void {
    const began = this.events.findLast(
      ({ by: who, event }) => who === by && event.type === 'rollback' && event.account === account,
    );
    for (const {
      id,
      gateway,
      account: of,
      state,
      lostAt,
      isForgiven,
      isOffline,
    } of this.truth.requests.values()) {
      if (gateway !== by || of !== account || state !== 'running' || isForgiven || isOffline) continue;
      if (lostAt > (began?.at ?? 0)) continue;
      // An id that is ahead of a clock which was set back takes no hold; its charge is posted all the same.
      if (this.storeClockStepped) continue;
      this.server.inside.request(account, id).then(
        (record) => {
          if (!record) this.fail(`${by.name} says that ${account} is repaired, but ${id} holds nothing`);
        },
        (error: unknown) => this.fail(String(error)),
      );
    }
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
    return (this.time.now - START).toFixed(1).padStart(9);
  }
}

const VOIDED: ReadonlySet<string> = new Set(['ok', 'duplicate', 'planted']);

function seqOf(result: unknown): bigint {
  return typeof result === 'object' && result !== null && 'seq' in result ? (result.seq as bigint) : 0n;
}
