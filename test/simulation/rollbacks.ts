import type { LedgerEvent } from '../../src/ledger/contract/events.ts';
import { parseUsd } from '../../src/ledger/contract/money.ts';
import type { StampedReply } from './connection.ts';
import type { Entry } from './store-server.ts';
import type { Incarnation, RequestTruth } from './truth.ts';
import type { World } from './world.ts';

/** What an account's journal was at, for a gateway. */
interface Position {
  seq: bigint;
  at: number;
  /** Of the server that told it. */
  epoch: number;
  /** Since when the gateway has known the account. */
  readonly since: number;
}

/** Who repaired that an account went back in time after `since`. */
interface Fall {
  readonly by: Incarnation;
  readonly account: string;
  readonly since: number;
}

/** How long it takes until a gateway has looked whether it has another server, or for all that it knows. */
const SEES_SERVER_WITHIN_MS = 3000;
const LOOKS_WITHIN_MS = 26_000;
/** How long a charge that is applied again waits for what other gateways have to apply again. */
const PATIENCE_MS = 20_000;

/** What a gateway remembers once it is acknowledged. */
const CHANGES: ReadonlySet<Entry['name']> = new Set(['admit', 'extend', 'settle', 'void', 'grant', 'adjust']);
const ACKNOWLEDGED: ReadonlySet<string> = new Set(['ok', 'exists', 'duplicate', 'planted']);
const OPERATIONS = ['grant', 'adjust', 'createKey'] as const;

/** What the store took back, and who could know of it. */
export class Rollbacks {
  readonly #world: World;
  /** By gateway and account. */
  readonly #positions = new Map<string, Position>();
  readonly #falls: Fall[] = [];
  /** Account -> when something of it was lost last. */
  readonly #lostAt = new Map<string, number>();
  /** Commands that changed something. */
  readonly #effective = new WeakSet<Entry>();
  /** Account and what was lost of it -> when that was last. */
  readonly #losses = new Map<string, number>();
  /** Gateway and account -> what it was told that the account has, and when first. */
  readonly #acknowledged = new Map<string, Map<string, number>>();
  /** Gateway and account -> when the gateway told last that the account went back in time. */
  readonly #toldAt = new Map<string, number>();
  readonly #crossedAt = new Map<string, number>();
  /** Gateway and account -> when the gateway told that the account is lost. */
  readonly #seenEmptyAt = new Map<string, number>();
  /** What arrives may be a copy of what arrived before. */
  readonly comesTwice: boolean;
  count = 0;
  lastAt = -Infinity;
  /** When something was lost last that nobody promises to repair. */
  forgivenAt = 0;

  constructor(world: World) {
    this.#world = world;
    const { duplicate, delay } = world.swarm.network;
    this.comesTwice = duplicate > 0 || delay > 0;
  }

  /**
   * Commands that were acknowledged, perhaps, and are gone.
   *
   * @param how - no repair is promised of what was lost with all the files
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
      // A gateway that saw the account empty has forgotten what it knew of it.
      const isForgotten = (this.#seenEmptyAt.get(`${from} ${account}`) ?? 0) > wall;
      // A key leaves no trace by which a gateway could see that it is gone.
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

  /** Commands whose changes are not there any more, for ever or until a backup brings them back. */
  misplace(entries: readonly Entry[]): void {
    const { now } = this.#world.time;
    for (const entry of entries) {
      if (this.#effective.has(entry)) this.#losses.set(`${entry.account} ${entry.about}`, now);
    }
  }

  /** Where the accounts are gone, nobody repairs any more what failovers took of them before. */
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

  /** A command found an account without what was lost while it was on its way. */
  onApplied(entry: Entry, code: string): void {
    const { from, account, sentAt, wall, name } = entry;
    if (code === 'ok' || code === 'planted') this.#effective.add(entry);
    const lostAt = this.#lostAt.get(account) ?? -Infinity;
    if (CHANGES.has(name) && sentAt <= lostAt && lostAt <= wall)
      this.#crossedAt.set(`${from} ${account}`, wall);
  }

  /**
   * When what a gateway can't know yet was lost: after the one time, and by the other.
   *
   * A gateway looks for what was acknowledged last. A command that was on its way when an account went back in time
   * can be that, and say nothing of what is lost. All else is looked for soon after another server was found, or now and
   * then.
   */
  hiddenFrom(gateway: string, account: string): { readonly from: number; readonly to: number } {
    const { time, swarm } = this.#world;
    const from = time.now - (swarm.terms.tellsIdentity ? SEES_SERVER_WITHIN_MS : LOOKS_WITHIN_MS);
    return { from, to: this.#crossedAt.get(`${gateway} ${account}`) ?? -Infinity };
  }

  /** Since when a gateway has known an account; undefined when it doesn't. */
  knownSince(gateway: string, account: string): number | undefined {
    return this.#positions.get(`${gateway} ${account}`)?.since;
  }

  onReply(gateway: Incarnation, { account, about, code, sentAt, seq, epoch }: StampedReply): void {
    const { now } = this.#world.time;
    const key = `${gateway.name} ${account}`;
    if (ACKNOWLEDGED.has(code)) {
      const known = this.#acknowledged.get(key) ?? new Map<string, number>();
      this.#acknowledged.set(key, known);
      if (!known.has(about)) known.set(about, now);
    }
    const position = this.#positions.get(key);
    if (!position) {
      if (seq > 0n) this.#positions.set(key, { seq, at: now, epoch, since: now });
      return;
    }
    // What a former primary had answered before comes late.
    if (epoch < position.epoch) return;
    position.epoch = epoch;
    const fell = seq < position.seq && sentAt > position.at;
    if (seq > position.seq || fell) {
      position.seq = seq;
      position.at = now;
    }
  }

  /** What was acknowledged to a process, and is posted again by it, was lost and repaired. */
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
    // What is lost while it is repaired is of the same repair.
    if (last?.event.type === 'rollback') return;
    this.#falls.push({ by, account, since });
  }

  /**
   * Who says that an account went back in time knew of something that was lost, and has not said so of it: since the
   * gateway said so last it was lost, or the gateway was told of it, as by a charge that a process before it had left.
   */
  #checkTold(by: Incarnation, account: string): void {
    const key = `${by.name} ${account}`;
    const toldAt = this.#toldAt.get(key) ?? -Infinity;
    this.#toldAt.set(key, this.#world.time.now);
    for (const [about, since] of this.#acknowledged.get(key) ?? []) {
      const lostAt = this.#losses.get(`${account} ${about}`);
      if (lostAt !== undefined && (lostAt >= toldAt || since >= toldAt)) return;
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

  /** What is lost for ever is told to operators, with a reason. */
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
    // Where nothing of it was lost, its gateway has no reason to wait.
    if (request && request.lostBy.size > 0) this.#checkWaited(request);
  }

  /** A charge that was lost is given up only after others had the time to apply again what they know. */
  #checkWaited({ id, account, isForgiven }: RequestTruth): void {
    const since = this.#world.time.now - (this.#lostAt.get(account) ?? 0);
    if (since >= PATIENCE_MS || isForgiven) return;
    const missing = this.#missingCredit(account);
    if (missing === undefined) return;
    this.#world.fail(
      `${id} was not charged in full ${Math.round(since)} ms after a rollback, before ${missing} was there again`,
    );
  }

  /** What a gateway that lives knows of, and would give the account more once it is applied again. */
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

  /** Whoever says that an account is repaired has taken again the holds of its running requests. */
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

  /** I13: who repairs an account says that it went back in time. */
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
      if (!told) return `I13: ${who.name} knew that ${account} went back in time, and told nobody`;
    }
    return undefined;
  }
}
