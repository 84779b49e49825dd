import { ACCOUNT_POLICY } from '../../src/ledger/contract/key-records.ts';
import { hash } from 'node:crypto';

import { type Allow, ROLLOVERS } from '../../src/ledger/contract/allowances.ts';
import { type LedgerStore, StoreUnavailableError } from '../../src/ledger/contract/ledger-store.ts';
import type { DurabilityInfo } from '../../src/ledger/contract/reply.ts';
import type { Gateway } from './gateway.ts';
import { priceOf } from './provider.ts';
import type { Command, Sent } from './store-server.ts';
import type { Account } from './swarm.ts';
import type { OperationTruth } from './truth.ts';
import { Actor } from './virtual-time.ts';
import { MAX_ON_ITS_WAY_MS, type World } from './world.ts';

/** Maximum of repetitions for a slow disk or replica. */
const DURABLE_TRIES = 5;

/** Operators that grant credits, adjust balances, freeze accounts and revoke keys, through any running gateway. */
export class Operator {
  readonly actor = new Actor('operator');
  readonly #world: World;
  #operations = 0;
  readonly #sanctioning = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Creates the accounts, before the fault phase. */
  open(): void {
    const { server, swarm } = this.#world;
    for (const { id, opening, keys, externalKeys, limits: ofAccount } of swarm.accounts) {
      const grant = { account: id, id: openingOf(id), amount: opening };
      this.#apply('grant', id, grant.id, (store) => store.grant(grant));
      const allow = allowanceOf(id, swarm.startsAt);
      if (allow) this.#apply('allow', id, allow.id, (store) => store.allow(allow));
      if (ofAccount) {
        const policy = { account: id, key: ACCOUNT_POLICY, version: 0, name: id, limits: ofAccount };
        this.#apply('updateKey', id, ACCOUNT_POLICY, async (store) => {
          // The grant is applied after such a look, too: it makes the account.
          await store.snapshot(id);
          return store.updateKey(policy);
        });
      }
      for (const { id: key, limits } of externalKeys ? [] : keys) {
        const create = {
          account: id,
          key,
          hash: hashOf(`${id} ${key}`),
          name: key,
          ...(limits && { limits }),
        };
        this.#apply('createKey', id, key, (store) => store.createKey(create));
      }
    }
    server.makeSafe(server.length);
  }

  #apply(name: Command, account: string, about: string, run: Sent['run']): void {
    const { server, time } = this.#world;
    void server.apply({ from: 'nobody', sentAt: time.now, name, account, about, run });
  }

  /** Grants or adjusts credits, and repeats that until it is acknowledged, and durable where known. */
  change(): void {
    const { random, swarm, time } = this.#world;
    const account = random.pick(swarm.accounts as [(typeof swarm.accounts)[0]]).id;
    const id = `operation${(this.#operations += 1)}`;
    const amount = priceOf(400, 60) * BigInt(random.between(1, 20));
    const isGrant = random.chance(0.7);
    const expiresAt = random.chance(0.5) ? Math.floor(time.now) + random.below(600_000) : undefined;
    const priority = random.pick([undefined, 10, 90]);
    const operation = this.#plan(id, account, isGrant || random.chance(0.5) ? amount : -amount, undefined);
    const grant = {
      account,
      id,
      amount,
      ...(expiresAt !== undefined && { expiresAt }),
      ...(priority !== undefined && { priority }),
    };
    const adjust = { account, id, delta: operation.amount, reason: 'correction' };
    this.#untilDurable(operation, async (store) =>
      isGrant ? await store.grant(grant) : await store.adjust(adjust),
    );
  }

  /** Creates an API key, repeated like a grant. */
  createKey(): void {
    const { random } = this.#world;
    const { account, key } = this.#world.someKey();
    if (account.externalKeys) return;
    const id = `key-made${(this.#operations += 1)}`;
    const limits = random.chance(0.5) ? key.limits : undefined;
    const operation = this.#plan(id, account.id, 0n, { limits });
    const create = { account: account.id, key: id, hash: hashOf(id), name: id, ...(limits && { limits }) };
    this.#untilDurable(operation, (store) => store.createKey(create));
  }

  #plan(id: string, account: string, amount: bigint, key: OperationTruth['key']): OperationTruth {
    const operation: OperationTruth = {
      id,
      account,
      key,
      amount,
      isAcknowledged: false,
      isDurable: false,
      by: undefined,
      lostBy: new Set(),
      isForgiven: false,
    };
    this.#world.truth.operations.set(id, operation);
    return operation;
  }

  #untilDurable(
    operation: OperationTruth,
    command: (store: LedgerStore) => Promise<{ readonly code: string } & DurabilityInfo>,
  ): void {
    let patience = DURABLE_TRIES;
    this.#repeat(operation.id, async (store, gateway) => {
      const sentAt = this.#world.time.now;
      const { code, durable } = await command(store);
      const knownSince = this.#world.rollbacks.knownSince(gateway.actor.name, operation.account) ?? Infinity;
      if (code === 'no_account' && knownSince < sentAt && this.#world.swarm.terms.isReliable) {
        this.#world.fail(`${gateway.actor.name} knew ${operation.account}, and does not say that it is lost`);
      }
      if (code !== 'ok' && code !== 'duplicate') return true;
      operation.isAcknowledged = true;
      operation.isDurable ||= durable === true;
      operation.by = gateway.incarnation;
      patience -= 1;
      return durable !== false || patience === 0;
    });
  }

  /** Freezes an account, and possibly unfreezes it later; or revokes a key. */
  sanction(): void {
    const { random, time } = this.#world;
    const { account, key } = this.#world.someKey();
    if (!account.externalKeys && random.chance(0.4)) {
      this.#sanction(account, key.id, true);
      return;
    }
    const mayThaw = random.chance(0.7);
    this.#sanction(account, undefined, true, () => {
      if (!mayThaw) return;
      const afterMs = random.skewed(MAX_ON_ITS_WAY_MS, 120_000);
      time.after(this.actor, afterMs, () => this.#sanction(account, undefined, false));
    });
  }

  /** One at a time per account: the order of two concurrent ones would be unknown. */
  #sanction({ id }: Account, key: string | undefined, frozen: boolean, then = (): void => {}): void {
    const { time, truth, rollbacks } = this.#world;
    if (this.#sanctioning.has(id)) return;
    this.#sanctioning.add(id);
    const change = async (store: LedgerStore, gateway: Gateway, askedAt: number): Promise<boolean> => {
      const sentAt = time.now;
      const known = await (key === undefined ? store.freeze(id, frozen) : store.revokeKey(id, key));
      const name = key === undefined ? id : `${id} ${key}`;
      // Of a gateway that stood still: others were asked meanwhile, and which came last is unknown.
      if (time.now - askedAt > MAX_ON_ITS_WAY_MS) truth.sanctions.delete(name);
      else if (known && rollbacks.forgivenAt < sentAt) {
        truth.sanctions.set(name, { frozen, by: gateway.incarnation });
      }
      return true;
    };
    this.#repeat('sanction', change, () => {
      then();
      time.after(this.actor, MAX_ON_ITS_WAY_MS - 1, () => this.#sanctioning.delete(id));
    });
  }

  #repeat(
    what: string,
    command: (store: LedgerStore, gateway: Gateway, askedAt: number) => Promise<boolean>,
    then = (): void => {},
  ): void {
    const { random, slots, time } = this.#world;
    const again = (): void => {
      time.after(this.actor, random.between(500, 5000), () => this.#repeat(what, command, then));
    };
    const { gateway } = slots[random.below(slots.length)] ?? {};
    if (!gateway) {
      again();
      return;
    }
    // A call to a process that dies gets no answer, and is repeated.
    let answered = false;
    const askedAt = time.now;
    time.after(this.actor, 10_000, () => {
      if (answered) return;
      answered = true;
      again();
    });
    time.after(gateway.actor, 0, () => {
      command(gateway.store, gateway, askedAt).then(
        (done) => {
          if (answered) return;
          answered = true;
          this.#world.note(`operator: ${what} by ${gateway.actor.name}, done ${done}`);
          if (done) then();
          else again();
        },
        (error: unknown) => {
          if (!(error instanceof StoreUnavailableError))
            this.#world.fail(`an operator's command broke: ${String(error)}`);
          if (answered) return;
          answered = true;
          again();
        },
      );
    });
  }
}

/** The id of an account's first grant. */
export function openingOf(account: string): string {
  return `opening-${account}`;
}

/**
 * The allowance of about every second account: its period ends a few minutes into the run, so that gateways, clock steps and
 * rollbacks meet at the boundary.
 */
export function allowanceOf(account: string, startsAt: number): Allow | undefined {
  const number = Number.parseInt(hash('sha256', `${account} ${startsAt}`, 'hex').slice(0, 8), 16);
  if (number % 2 === 0) return undefined;
  const minutes = 1 + (number % 7);
  return {
    account,
    id: 'hourly',
    amount: priceOf(400, 60),
    per: 'hour',
    anchor: Math.ceil(startsAt / 1000) * 1000 + minutes * 60_000,
    rollover: ROLLOVERS[number % ROLLOVERS.length]!,
    priority: 20,
    change: 'next_period',
  };
}

/** SHA-256 of a key, as recorded in the store. */
function hashOf(key: string): string {
  return hash('sha256', key, 'hex');
}
