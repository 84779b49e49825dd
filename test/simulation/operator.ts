import { hash } from 'node:crypto';

import { type LedgerStore, StoreUnavailable } from '../../src/ledger/ledger.ts';
import type { Gateway } from './gateway.ts';
import { priceOf } from './provider.ts';
import type { OperationTruth } from './truth.ts';
import { Actor } from './virtual-time.ts';
import type { World } from './world.ts';

/** Those who grant credits, correct balances, freeze accounts and revoke keys, through whatever gateway is there. */
export class Operator {
  readonly actor = new Actor('operator');
  readonly #world: World;
  #operations = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Opens the accounts, before anything can go wrong. */
  open(): void {
    const { server, swarm } = this.#world;
    for (const { id, opening, keys, externalKeys } of swarm.accounts) {
      const grant = { account: id, id: openingOf(id), amount: opening };
      void server.apply('grant', 'nobody', id, grant.id, (store) => store.grant(grant));
      for (const { id: key, limits } of externalKeys ? [] : keys) {
        const create = {
          account: id,
          key,
          hash: hashOf(`${id} ${key}`),
          name: key,
          ...(limits && { limits }),
        };
        void server.apply('createKey', 'nobody', id, key, (store) => store.createKey(create));
      }
    }
    server.makeSafe(server.length);
  }

  /** Adds or takes credits, and repeats that until it is acknowledged, and durable where that can be told. */
  change(): void {
    const { random, swarm, truth, time } = this.#world;
    const account = random.pick(swarm.accounts as [(typeof swarm.accounts)[0]]).id;
    const id = `operation${(this.#operations += 1)}`;
    const amount = priceOf(400, 60) * BigInt(random.between(1, 20));
    const isGrant = random.chance(0.7);
    const expiresAt = random.chance(0.5) ? Math.floor(time.now) + random.below(600_000) : undefined;
    const priority = random.pick([undefined, 10, 90]);
    const operation: OperationTruth = {
      id,
      account,
      amount: isGrant || random.chance(0.5) ? amount : -amount,
      isAcknowledged: false,
      isDurable: false,
      by: undefined,
      lostBy: new Set(),
      isForgiven: false,
    };
    truth.operations.set(id, operation);
    const grant = {
      account,
      id,
      amount,
      ...(expiresAt !== undefined && { expiresAt }),
      ...(priority !== undefined && { priority }),
    };
    const adjust = { account, id, delta: operation.amount, reason: 'correction' };
    this.#repeat(id, async (store, gateway) => {
      const result = isGrant ? await store.grant(grant) : await store.adjust(adjust);
      const { code } = result;
      if (code !== 'ok' && code !== 'duplicate') return true;
      operation.isAcknowledged = true;
      operation.isDurable ||= result.durable === true;
      operation.by = gateway.incarnation;
      return result.durable !== false;
    });
  }

  /** Freezes an account or releases it, or revokes a key. */
  sanction(): void {
    const { random, swarm } = this.#world;
    const account = random.pick(swarm.accounts as [(typeof swarm.accounts)[0]]);
    const key = random.pick(account.keys as [(typeof account.keys)[0]]).id;
    const frozen = random.chance(0.7);
    const revokes = !account.externalKeys && random.chance(0.4);
    this.#repeat('sanction', async (store, gateway) => {
      const { time } = this.#world;
      const sentAt = time.now;
      const known = await (revokes ? store.revokeKey(account.id, key) : store.freeze(account.id, frozen));
      if (known && this.#world.forgivenAt < sentAt) {
        const sanction = { frozen: revokes || frozen, by: gateway.incarnation };
        this.#world.truth.sanctions.set(revokes ? `${account.id} ${key}` : account.id, sanction);
      }
      return true;
    });
  }

  #repeat(what: string, command: (store: LedgerStore, gateway: Gateway) => Promise<boolean>): void {
    const { random, slots, time } = this.#world;
    const again = (): void => {
      time.after(this.actor, random.between(500, 5000), () => this.#repeat(what, command));
    };
    const { gateway } = slots[random.below(slots.length)] ?? {};
    if (!gateway) {
      again();
      return;
    }
    // Whoever asks a process that dies hears nothing, and asks again.
    let answered = false;
    time.after(this.actor, 10_000, () => {
      if (answered) return;
      answered = true;
      again();
    });
    time.after(gateway.actor, 0, () => {
      command(gateway.store, gateway).then(
        (done) => {
          if (answered) return;
          answered = true;
          this.#world.note(`operator: ${what} by ${gateway.actor.name}, done ${done}`);
          if (!done) again();
        },
        (error: unknown) => {
          if (!(error instanceof StoreUnavailable))
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

/** SHA-256, as the store knows a key. */
function hashOf(key: string): string {
  return hash('sha256', key, 'hex');
}
