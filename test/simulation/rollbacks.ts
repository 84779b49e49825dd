import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import { parseUsd } from '../../src/ledger/contract/money.ts';
import type { StampedReply } from './connection.ts';
import type { Entry } from './store-server.ts';
import type { Incarnation, RequestTruth } from './truth.ts';
import type { World } from './world.ts';

/** An account's journal position, as known to a gateway. */
interface Position {
  seq: bigint;
  at: number;
  /** Of the server that replied. */
  epoch: number;
  /** Since when the gateway has known the account. */
  readonly since: number;
}

/** The gateway that repaired an account that was rolled back after `since`. */
interface Fall {
  readonly by: Incarnation;
  readonly account: string;
  readonly since: number;
}

interface Acknowledged extends Pick<StampedReply, 'name' | 'about'> {
  readonly at: number;
}

/** Maximum time until a gateway has checked for another server, or verified everything that it knows. */
const SEES_SERVER_WITHIN_MS = 3000;
const LOOKS_WITHIN_MS = 26_000;
/** How long a replayed charge waits for replays of other gateways. */
const PATIENCE_MS = 20_000;

/** Commands that a gateway logs once they are acknowledged. */
const CHANGES: ReadonlySet<Entry['name']> = new Set(['admit', 'extend', 'settle', 'void', 'grant', 'adjust']);
const ACKNOWLEDGED: ReadonlySet<string> = new Set(['ok', 'exists', 'duplicate', 'planted']);
const OPERATIONS = ['grant', 'adjust', 'createKey'] as const;

/** What the store lost, and which gateways can know of it. */
export class Rollbacks {
  readonly #world: World;
  /** By gateway and account. */
  readonly #positions = new Map<string, Position>();
  readonly #falls: Fall[] = [];
  /** Account -> when it last lost something. */
  readonly #lostAt = new Map<string, number>();
  /** Commands that changed something. */
  readonly #effective = new WeakSet<Entry>();
  /** Account and lost change -> when that was last lost. */
  readonly #losses = new Map<string, number>();
  /**
   * Gateway and account -> what was acknowledged to it, by which command, and when first: it may learn of a request's void after the
   * loss of its hold.
   */
  readonly #acknowledged = new Map<string, Acknowledged[]>();
  /** Gateway and account -> when the gateway last reported a rollback. */
  readonly #toldAt = new Map<string, number>();
  readonly #crossedAt = new Map<string, number>();
  /** Gateway and account -> when the gateway reported that the account is lost. */
  readonly #seenEmptyAt = new Map<string, number>();
  /** An arriving command may be a copy of an earlier one. */
  readonly comesTwice: boolean;
  count = 0;
  lastAt = -Infinity;
  /** When something outside the repair guarantee was last lost. */
  forgivenAt = 0;

  constructor(world: World) {
    this.#world = world;
    const { duplicate, delay } = world.swarm.network;
    this.comesTwice = duplicate > 0 || delay > 0;
  }

  /**
   * Commands that are lost, and may have been acknowledged.
   *
   * @param how - what was lost with all the files is outside the repair guarantee
   */
  lose(lost: readonly Entry[], how: 'failed over' | 'silently' | 'emptied' = 'failed over'): void {
    const { truth, time, incarnations, swarm } = this.#world;
    const isForgiven = how === 'emptied';
    this.count += 1;
    this.lastAt = time.now;
    this.misplace(lost);
    if (how !== 'failed over') this.forgivenAt = time.now;
    for (const entry of lost) {
      const { from, name, about, account, wall } = entry;
      const by = incarnations.get(from);
      if (!by || about === '') continue;
      this.#world.note(`lost: ${name} ${about} of ${from}`);
      this.#lostAt.set(account, time.now);
      if (name === 'void') this.#world.voided.delete(about);
      const request = truth.requests.get(about);
      if (request) request.lostAt = time.now;
      const operation = truth.operations.get(about);
      if (operation && how === 'emptied') operation.isDurable = false;
      // A gateway that saw the account empty has deleted its log of it.
      const isForgotten = (this.#seenEmptyAt.get(`${from} ${account}`) ?? 0) > wall;
      // A gateway has no witness for a key, so it can't notice its loss.
      const isUnseen = how === 'silently' && operation?.key !== undefined && !swarm.terms.tellsIdentity;
      for (const each of [request, operation]) {
        each?.lostBy.add(by);
        if (each && (isForgiven || isForgotten || isUnseen)) each.isForgiven = true;
      }
      const sanction = name === 'freeze' ? account : name === 'revokeKey' ? `${account} ${about}` : undefined;
      const isUnnoticed = how === 'silently' && !swarm.terms.tellsIdentity;
      if (sanction !== undefined && (isUnnoticed || isForgiven)) truth.sanctions.delete(sanction);
    }
    if (how === 'emptied') this.#forgiveUnrepaired();
  }

  /** Commands whose changes are lost, for ever or until a backup restores them. */
  misplace(entries: readonly Entry[]): void {
    const { now } = this.#world.time;
    for (const entry of entries) {
      if (this.#effective.has(entry)) this.#losses.set(`${entry.account} ${entry.about}`, now);
    }
  }

  /** Lost accounts are no longer repaired from earlier failovers. */
  #forgiveUnrepaired(): void {
    const { truth, server } = this.#world;
    for (const request of truth.requests.values()) {
      request.isForgiven ||= request.lostBy.size > 0 && !server.has('settle', request.id);
    }
    for (const operation of truth.operations.values()) {
      const { id, lostBy } = operation;
      const isThere = OPERATIONS.some((name) => server.has(name, id));
      operation.isForgiven ||= lostBy.size > 0 && !isThere;
    }
    truth.sanctions.clear();
  }

  /** A command found an account without what was lost while it was in flight. */
  onApplied(entry: Entry, code: string): void {
    const { from, account, sentAt, wall, name } = entry;
    if (code === 'ok' || code === 'planted') this.#effective.add(entry);
    const lostAt = this.#lostAt.get(account) ?? -Infinity;
    if (CHANGES.has(name) && sentAt <= lostAt && lostAt <= wall)
      this.#crossedAt.set(`${from} ${account}`, wall);
  }

  /**
   * The time range of losses that a gateway can't know yet.
   *
   * A gateway checks for the latest acknowledged change. That can be a command that was in flight during the rollback,
   * which doesn't reveal the loss. All other changes are checked soon after another server was found, or periodically.
   */
  hiddenFrom(gateway: string, account: string): { readonly from: number; readonly to: number } {
    const { time, swarm } = this.#world;
    const from = time.now - (swarm.terms.tellsIdentity ? SEES_SERVER_WITHIN_MS : LOOKS_WITHIN_MS);
    return { from, to: this.#crossedAt.get(`${gateway} ${account}`) ?? -Infinity };
  }

  /** Since when a gateway knows an account; undefined if it doesn't. */
  knownSince(gateway: string, account: string): number | undefined {
    return this.#positions.get(`${gateway} ${account}`)?.since;
  }

  onReply(gateway: Incarnation, { name, account, about, code, sentAt, seq, epoch }: StampedReply): void {
    const { now } = this.#world.time;
    const key = `${gateway.name} ${account}`;
    if (ACKNOWLEDGED.has(code)) {
      const known = this.#acknowledged.get(key) ?? [];
      this.#acknowledged.set(key, known);
      if (!known.some((each) => each.about === about && each.name === name))
        known.push({ name, about, at: now });
    }
    const position = this.#positions.get(key);
    if (!position) {
      if (seq > 0n) this.#positions.set(key, { seq, at: now, epoch, since: now });
      return;
    }
    // A late answer of a former primary.
    if (epoch < position.epoch) return;
    position.epoch = epoch;
    const fell = seq < position.seq && sentAt > position.at;
    if (seq > position.seq || fell) {
      position.seq = seq;
      position.at = now;
    }
  }

  /** An acknowledged change that its process posts again was lost and repaired. */
  onSettled(from: string, account: string, requestId: string): void {
    const { truth, incarnations } = this.#world;
    const request = truth.requests.get(requestId);
    const by = incarnations.get(from);
    if (!request?.isAcknowledged || !by || request.gateway !== by || this.comesTwice) return;
    this.#fell(by, account, request.lostAt);
  }

  #fell(by: Incarnation, account: string, since: number): void {
    const last = this.#world.events.findLast(
      (each) =>
        each.by === by &&
        (each.event.type === 'rollback' || each.event.type === 'rollback_repaired') &&
        each.event.account === account,
    );
    // A loss during a repair belongs to the same repair.
    if (last?.event.type === 'rollback') return;
    this.#falls.push({ by, account, since });
  }

  /**
   * A gateway that reports a rollback must know of a loss that it has not reported: since its last report something was
   * lost, or the gateway learned of it, as by a charge in the outbox of an earlier process.
   */
  #checkTold(by: Incarnation, account: string): void {
    const key = `${by.name} ${account}`;
    const toldAt = this.#toldAt.get(key) ?? -Infinity;
    this.#toldAt.set(key, this.#world.time.now);
    for (const { about, at } of this.#acknowledged.get(key) ?? []) {
      const lostAt = this.#losses.get(`${account} ${about}`);
      if (lostAt !== undefined && (lostAt >= toldAt || at >= toldAt)) return;
    }
    // An id that is ahead of a clock which was set back takes no hold again: its charge shows once more that it was lost.
    if (this.#world.storeClockStepped) return;
    this.#world.fail(
      `I13: ${by.name} says that ${account} went back in time, and nothing that it knew was lost`,
    );
  }

  onEvent(by: Incarnation, event: LedgerEvent): void {
    if (event.type === 'rollback') this.#checkTold(by, event.account);
    if (event.type === 'rollback_repaired') this.#checkRepair(by, event.account);
    if (event.type === 'account_lost') {
      this.#seenEmptyAt.set(`${by.name} ${event.account}`, this.#world.time.now);
    }
    if (event.type === 'repair_refused')
      this.#onRefused(event.id, event.code, parseUsd(event.amount, 'amount'));
    if (event.type === 'write_off') {
      const request = this.#world.truth.requests.get(event.requestId);
      if (request) request.told.writtenOff += parseUsd(event.amount, 'amount');
    }
  }

  /** Permanent losses are reported to operators, with a reason. */
  #onRefused(id: string, code: string, amount: bigint): void {
    const { truth } = this.#world;
    const request = truth.requests.get(id);
    const operation = truth.operations.get(id);
    if (operation) operation.isForgiven = true;
    const reasons = request ? ['old', 'no_funds'] : ['below_floor', 'too_big', 'too_many_lots'];
    if (!reasons.includes(code)) this.#world.fail(`${id} was lost, and is not repeated because of ${code}`);
    if (request && code === 'no_funds') {
      request.told.refused -= amount;
      this.#checkWaited(request);
    } else if (request) {
      request.isDeadLetter = true;
    }
  }

  /** The store has written something off. */
  onWriteOff(requestId: string): void {
    const request = this.#world.truth.requests.get(requestId);
    // If nothing of it was lost, its gateway has no reason to wait.
    if (request && request.lostBy.size > 0) this.#checkWaited(request);
  }

  /** A lost charge is given up only after the other gateways had time for their replays. */
  #checkWaited({ id, account, isForgiven }: RequestTruth): void {
    const since = this.#world.time.now - (this.#lostAt.get(account) ?? 0);
    if (since >= PATIENCE_MS || isForgiven) return;
    const missing = this.#missingCredit(account);
    if (missing === undefined) return;
    this.#world.fail(
      `${id} was not charged in full ${Math.round(since)} ms after a rollback, before ${missing} was there again`,
    );
  }

  /** What a live gateway knows, and would increase the balance once replayed. */
  #missingCredit(account: string): string | undefined {
    const { truth, server } = this.#world;
    for (const { id, account: of, amount, isAcknowledged, isForgiven, by } of truth.operations.values()) {
      if (of !== account || amount <= 0n || !isAcknowledged || isForgiven || by?.died) continue;
      if (!OPERATIONS.some((name) => server.has(name, id))) return id;
    }
    for (const { id, account: of, isAcknowledged, isForgiven, gateway } of truth.requests.values()) {
      if (of !== account || !isAcknowledged || isForgiven || gateway.died) continue;
      if (server.has('admit', id) && !server.has('settle', id) && !server.has('void', id))
        return `the end of ${id}`;
    }
    return undefined;
  }

  /** A gateway that reports a repair has restored the holds of its running requests. */
  #checkRepair(by: Incarnation, account: string): void {
    const { events, truth, server, storeClockStepped } = this.#world;
    // An id that is ahead of a clock which was set back takes no hold; its charge is posted all the same.
    if (storeClockStepped || server.isEmpty) return;
    const began = events.findLast(
      ({ by: who, event }) => who === by && event.type === 'rollback' && event.account === account,
    );
    for (const request of truth.requests.values()) {
      const { id, gateway, account: of, state, lostAt, isForgiven } = request;
      if (gateway !== by || of !== account || state !== 'running' || isForgiven) continue;
      if (lostAt > (began?.at ?? 0)) continue;
      server
        .insideFor(by.name)
        .request(account, id)
        .then(
          (record) => {
            if (record) return;
            this.#world.fail(`${by.name} says that ${account} is repaired, but ${id} holds nothing`);
          },
          (error: unknown) => this.#world.fail(String(error)),
        );
    }
  }

  /** I13: a gateway that repairs an account reports the rollback. */
  unnoticed(): string | undefined {
    const { swarm, events } = this.#world;
    if (!swarm.terms.isReliable) return undefined;
    for (const { by: who, account, since } of this.#falls) {
      if (who.died) continue;
      const told = events.some(
        ({ by, event, at }) =>
          by === who &&
          (event.type === 'rollback' || event.type === 'account_lost') &&
          event.account === account &&
          at >= since,
      );
      if (!told) return `I13: ${who.name} knew that ${account} was rolled back, and did not report it`;
    }
    return undefined;
  }
}
