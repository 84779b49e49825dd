import { setTimeout as pause } from 'node:timers/promises';

import { formatUsd, parseUsd } from '../../src/ledger/contract/money.ts';
import type { Random } from '../simulation/random.ts';
import type { GatewayPlace } from './gateway-place.ts';
import type { Payer } from './plan.ts';

/** A grant or adjustment that an operator wants to be made once. */
export interface Change {
  readonly kind: 'grant' | 'adjust';
  readonly account: string;
  readonly id: string;
  /** Nano-dollars, with its sign. */
  readonly amount: bigint;
  /** When which gateway was asked. */
  readonly asked: { readonly at: number; readonly place: number; answer: string }[];
  acknowledgedAt?: number;
  /** The code by which it was refused for good. */
  refused?: string;
}

export interface OperatorsOptions {
  readonly random: Random;
  readonly places: readonly GatewayPlace[];
  /** To which keys are added, and from which those are taken that have spent their budget. */
  readonly payers: Payer[];
}

const REFUSALS = ['conflict', 'too_big', 'too_many_lots', 'below_floor', 'no_account'];
const PLENTY = '1000';
/** What is asked of gateways that live has an answer by then. */
const HOLD_MS = 15_000;
/** A few seconds' worth. */
const BUDGET = 6_000_000n;
const POOR = ['poor-0', 'poor-1', 'poor-2'];

/** Those who open accounts, grant credits and look after keys, through whatever gateway they meet. */
export class Operators {
  readonly changes: Change[] = [];
  /** Of all keys that there ever were. */
  readonly keys: Payer[] = [];
  readonly #options: OperatorsOptions;
  #count = 0;
  readonly #running = new Set<Promise<void>>();
  #held: Promise<void> | undefined;

  constructor(options: OperatorsOptions) {
    this.#options = options;
  }

  get accounts(): readonly string[] {
    return [...new Set(this.keys.map(({ account }) => account))];
  }

  /** Makes all accounts and keys that the load begins with. */
  async open(): Promise<void> {
    const { places } = this.#options;
    await Promise.all(places.map((place) => untilAcknowledged(() => place.control({ do: 'ready' }))));
    await this.#openAccount({ account: 'rich-0', share: 8, isUnlimited: true });
    await this.#openAccount({ account: 'rich-1', share: 4, isUnlimited: true });
    for (const place of places.keys()) {
      await this.#openAccount({ account: `solo-${place}`, share: 1.5, place, isUnlimited: true });
    }
    // Of these, one is served by one gateway, and granted to by another.
    for (const [n, account] of POOR.entries()) {
      const fixed = n === 0 ? { place: 0 } : {};
      await this.#openAccount({ account, share: 1.5, ...fixed, isUnlimited: false }, '0.004');
    }
    await this.#openAccount({ account: 'limited', share: 1, isUnlimited: false, requestsPerMinute: 30 });
    await this.#createKey({ account: 'limited', share: 1.5, isUnlimited: false, concurrentRequests: 3 });
    await this.#createKey({ account: 'limited', share: 2, isUnlimited: false, budget: BUDGET });
  }

  /** From when it resolves nothing is asked for, until it is released. */
  async hold(): Promise<() => void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    await Promise.race([Promise.all(this.#running), pause(HOLD_MS)]);
    return () => {
      this.#held = undefined;
      resolve();
    };
  }

  /** Works until it is stopped, and resolves when all that it began is acknowledged or refused. */
  async run(signal: AbortSignal): Promise<void> {
    const { random, payers } = this.#options;
    while (!signal.aborted) {
      await pause(random.between(200, 800));
      await this.#held;
      const drawn = random.next();
      if (drawn < 0.7) this.#begin(this.#grantPoor());
      else if (drawn < 0.8)
        this.#begin(this.#change('grant', 'rich-0', BigInt(random.between(1, 9)) * 100_000n));
      else if (drawn < 0.9)
        this.#begin(this.#change('adjust', 'rich-1', random.pick([-7007n, -1001n, 1001n, 9009n])));
      else if (drawn < 0.95) this.#begin(this.#renameKey());
      else this.#begin(this.#replaceBudgetKey(payers));
    }
    await Promise.all(this.#running);
  }

  #begin(work: Promise<void>): void {
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }

  #grantPoor(): Promise<void> {
    const { random } = this.#options;
    const account = random.pick(['poor-0', 'poor-1', 'poor-2']);
    return this.#change('grant', account, BigInt(random.between(5, 40)) * 100_000n);
  }

  async #openAccount(payer: Omit<Payer, 'keyId' | 'secret'>, credits = PLENTY): Promise<void> {
    await this.#change('grant', payer.account, parseUsd(credits, 'credits'));
    await this.#createKey(payer);
  }

  /** Repeats it until it is acknowledged or refused, through one gateway or another. */
  async #change(kind: Change['kind'], account: string, amount: bigint): Promise<void> {
    const { random } = this.#options;
    const change: Change = { kind, account, id: `soak-${kind}-${(this.#count += 1)}`, amount, asked: [] };
    this.changes.push(change);
    const { id } = change;
    const usd = formatUsd(amount);
    while (change.acknowledgedAt === undefined && change.refused === undefined) {
      const place = this.#drawPlace(account);
      const asked = { at: Date.now(), place: place.place, answer: '' };
      change.asked.push(asked);
      try {
        const { durable } = await place.control<{ readonly durable?: boolean }>(
          kind === 'grant'
            ? { do: 'grant', account, amount: usd, id }
            : { do: 'adjust', account, delta: usd, id },
        );
        asked.answer = `ok, durable: ${durable}`;
        if (durable !== false) change.acknowledgedAt = Date.now();
      } catch (error) {
        const { code = '', message } = error as Error & { readonly code?: string };
        asked.answer = `${code} ${message}`;
        if (REFUSALS.includes(code)) change.refused = code;
      }
      await pause(random.between(100, 500));
    }
  }

  /** That of the account which one gateway serves is granted to through the next one. */
  #drawPlace(account: string): GatewayPlace {
    const { random, places } = this.#options;
    const solo = /^solo-(\d+)$/.exec(account)?.[1];
    const n = solo === undefined ? random.below(places.length) : Number(solo);
    return places[account === POOR[0] && places.length > 1 ? 1 : n]!;
  }

  async #createKey(payer: Omit<Payer, 'keyId' | 'secret'>): Promise<Payer> {
    const { account, budget, requestsPerMinute, concurrentRequests } = payer;
    for (;;) {
      const keyId = `key-${(this.#count += 1)}`;
      try {
        const { key: secret } = await this.#drawPlace(account).control<{ readonly key: string }>({
          do: 'create key',
          key: {
            account,
            id: keyId,
            name: 'first',
            ...(budget !== undefined && { budget: { amount: formatUsd(budget), per: 'lifetime' } }),
            ...(requestsPerMinute !== undefined && { requestsPerMinute }),
            ...(concurrentRequests !== undefined && { concurrentRequests }),
          },
        });
        const made: Payer = { ...payer, keyId, secret };
        this.keys.push(made);
        this.#options.payers.push(made);
        return made;
      } catch {
        await pause(200);
      }
    }
  }

  async #replaceBudgetKey(payers: Payer[]): Promise<void> {
    const made = await this.#createKey({ account: 'limited', share: 2, isUnlimited: false, budget: BUDGET });
    const at = payers.findIndex(({ budget, keyId }) => budget !== undefined && keyId !== made.keyId);
    if (at >= 0) payers.splice(at, 1);
  }

  async #renameKey(): Promise<void> {
    const { random } = this.#options;
    const { account, keyId } = random.pick(this.keys as [Payer, ...Payer[]]);
    const name = `name-${(this.#count += 1)}`;
    const asked = this.#drawPlace(account).control({ do: 'rename key', account, id: keyId, name });
    await asked.catch(() => {});
  }
}

async function untilAcknowledged(call: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await call();
      return;
    } catch {
      await pause(100);
    }
  }
}
