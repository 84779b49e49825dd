import { hash } from 'node:crypto';

import { CreditStoreUnavailableError } from '../../src/errors/credit-errors.ts';
import type { IdempotencyKey } from '../../src/ledger/contract/ledger-store.ts';
import { type Body, KNOCK, planBody, planRequest } from './provider.ts';
import type { Caller, RequestTruth } from './truth.ts';
import type { Account } from './swarm.ts';
import { Actor } from './virtual-time.ts';
import { SERVES_WITHIN_MS, type Slot, TROUBLE_MS, type World } from './world.ts';

/** What a client wants exactly once: it sends an idempotency key, and retries when the outcome is uncertain. */
interface Order {
  readonly caller: Caller;
  readonly body: Body;
  /** Undefined for a request that is never repeated. */
  readonly name: string | undefined;
  repetitions: number;
}

/** Later requests would still run when the world is judged. */
const ASKS_UNTIL_MS = TROUBLE_MS + SERVES_WITHIN_MS;
/** Maximum time that a client waits before it retries. */
const PATIENCE_MS = 30_000;

/** Clients that send requests and repeat some of them, after a failure or while the first one still runs. */
export class Clients {
  readonly actor = new Actor('clients');
  /** Accounts with a request at a gateway that has not answered yet, or answered 503. */
  readonly closed = new Set<string>();
  readonly #world: World;
  #names = 0;
  #latest: Order | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  /** A client sends a request to some gateway. */
  ask(
    { account, key: { id: key, limits } } = this.#world.someKey(),
    isNamed = this.#world.random.chance(this.#world.swarm.habits.clientsNameRequests),
  ): void {
    const { random, slots } = this.#world;
    const order: Order = {
      caller: { account: account.id, key, externalKey: account.externalKeys, limits },
      body: planBody(random),
      name: isNamed ? `order${(this.#names += 1)}` : undefined,
      repetitions: isNamed ? random.between(1, 3) : 0,
    };
    if (isNamed) this.#latest = order;
    this.#send(order, order.body, slots[random.below(slots.length)]!);
  }

  /** Several clients with the same key send requests within a time, or one client repeats its request. */
  rush(ms: number): void {
    const { random, slots, time } = this.#world;
    const key = this.#world.someKey();
    for (let n = random.between(1, 5); n > 0; n--) {
      time.after(this.actor, random.below(ms), () => {
        const order = this.#latest;
        if (!order || random.chance(0.5)) this.ask(key, true);
        else this.#send(order, order.body, slots[random.below(slots.length)]!);
      });
    }
  }

  /** Sends a request of each account to each gateway; the provider rejects all of them. */
  knock(): void {
    const { swarm, slots, time } = this.#world;
    for (const { gateway } of slots) {
      if (!gateway || gateway.isClosing) continue;
      for (const { id: account, keys, externalKeys } of swarm.accounts) {
        const name = `${account} at ${gateway.actor.name}`;
        const [{ id: key, limits }] = keys as [Account['keys'][0]];
        const caller = { account, key, externalKey: externalKeys, limits };
        this.closed.add(name);
        const asked = { plan: KNOCK, caller, idempotencyKey: undefined };
        time.after(gateway.actor, 0, () => {
          gateway.serve(asked).then(
            (request) => {
              if (!isRefused(request)) this.closed.delete(name);
            },
            (error: unknown) => this.#world.fail(`a request broke: ${String(error)}`),
          );
        });
      }
    }
  }

  #send(order: Order, body: Body, slot: Slot): void {
    const { random, swarm, time } = this.#world;
    const { caller, name } = order;
    const { gateway } = slot;
    if (name !== undefined) this.#repeatAfter(order, slot, random.skewed(10, PATIENCE_MS));
    if (!gateway) return;
    const plan = planRequest(random, swarm.habits, body);
    const asked = { plan, caller, idempotencyKey: name === undefined ? undefined : keyOf(name, body) };
    const { calmSince } = this.#world;
    const isCalm = calmSince <= time.now;
    time.after(gateway.actor, 0, () => {
      gateway.serve(asked).then(
        (request) => {
          if (request && isRefused(request) && isCalm && this.#world.calmSince === calmSince) {
            this.#world.fail(`${request.id} is refused as if the store were away, and nothing is wrong`);
          }
          if (isRefused(request)) this.#repeatAfter(order, slot, random.skewed(20, 2000));
        },
        (error: unknown) => this.#world.fail(`a request broke: ${String(error)}`),
      );
    });
  }

  #repeatAfter(order: Order, slot: Slot, ms: number): void {
    const { random, slots, time, swarm } = this.#world;
    time.after(this.actor, ms, () => {
      if (order.repetitions === 0 || time.now > swarm.startsAt + ASKS_UNTIL_MS) return;
      order.repetitions -= 1;
      const { body } = order;
      const isOther = random.chance(0.1);
      const sent = isOther ? { ...body, promptChars: body.promptChars + 1 } : body;
      this.#send(order, sent, random.chance(0.5) ? slot : slots[random.below(slots.length)]!);
    });
  }
}

/** The client was told to retry, or got no answer. */
function isRefused(request: RequestTruth | undefined): boolean {
  return request === undefined || request.refusal instanceof CreditStoreUnavailableError;
}

function keyOf(name: string, body: Body): IdempotencyKey {
  return { key: hash('sha256', name, 'hex'), body: hash('sha256', JSON.stringify(body), 'hex') };
}
