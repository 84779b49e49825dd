import { isDeepStrictEqual } from 'node:util';
import {
  allowanceState,
  expiryOf,
  lotIdOf,
  missedPeriods,
  type ModelAllowance,
  periodAt,
  startOf,
} from './ledger-model-allowances.ts';
import type {
  AccountState,
  Adjust,
  AdjustResult,
  Admit,
  AdmitResult,
  Allow,
  AllowResult,
  Balance,
  DeleteAccountResult,
  EndAllowance,
  EndAllowanceResult,
  Ending,
  Extend,
  ExtendResult,
  Grant,
  GrantResult,
  IdempotencyKey,
  JournalLine,
  Refund,
  RefundResult,
  RequestRecord,
  SetFloor,
  SetFloorResult,
  Settle,
  SettleResult,
  DimensionRow,
  Dimensions,
  UsageRow,
  Void,
  Verify,
  VerifyResult,
  VoidResult,
  Witness,
  Witnessed,
} from '../../src/ledger/contract/ledger-store.ts';
import type { UsageCounts } from '../../src/ledger/contract/usage.ts';
import type {
  BudgetPeriod,
  Counters,
  CountersStatus,
  CreateKey,
  CreateKeyResult,
  EndUserLimits,
  EndUserState,
  EndUserStatus,
  ExceededLimit,
  FoundKey,
  KeyLimits,
  KeyRate,
  KeyRates,
  KeyRecord,
  KeyState,
  KeyStatus,
  KeyTerms,
  LimitHolder,
  MovedBudget,
  RotateKey,
  RotateKeyResult,
  UpdateKey,
  UpdateKeyResult,
} from '../../src/ledger/contract/key-records.ts';

/**
 * The simplest possible model of a ledger, to compare stores with.
 *
 * It deletes nothing and stores no totals: everything that follows from the
 * requests and the journal is recomputed each time, slowly.
 */
export class LedgerModel {
  readonly #clock: { readonly now: number };
  readonly #accounts = new Map<string, Account>();
  /** Account -> when it was deleted. */
  readonly #deletions = new Map<string, number>();

  constructor(clock: { readonly now: number }) {
    this.#clock = clock;
  }

  admit({ account: name, key: keyId, requestId, ...command }: Admit): AdmitResult {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    const reply = this.#replies(name, account?.lacks(command));
    if (account?.lacks(command)) return reply({ code: 'rolled_back' });
    const known = account?.find(requestId);
    if (account && known?.state === 'held') {
      const left = ratesIn(account.holdersOf(known), now);
      return reply({ code: 'exists', hold: known.hold, available: account.spendable(), ...left });
    }
    if (known && known.state !== 'held') return reply({ code: 'done', state: known.state });
    if (now > command.notAfter) return reply({ code: 'stale' });
    if (timeOf(requestId) > now + 5 * MINUTE) return reply({ code: 'ahead' });
    if (!account) return reply({ code: 'no_account' });
    if (timeOf(requestId) <= account.lowWater() && account.lowWater() <= now) return reply({ code: 'old' });
    if (account.frozen && !command.restore) return reply({ code: 'frozen' });

    account.reap(8, now);
    account.expireCredit(now);
    let key = account.keys.find((each) => each.id === keyId);
    const { idempotencyKey, endUser } = command;
    const twin = idempotencyKey && account.twin(keyId, idempotencyKey.key);
    if (command.restore) {
      key ??= newKey(keyId, undefined, { name: '' }, now);
      const holders = account.holdersFor(key, endUser, now);
      const available = account.spendable();
      const affordable = available < 0n ? 0n : available;
      const hold = command.want < affordable ? command.want : affordable;
      account.hold(
        holders,
        { ...command, requestId, hold, idempotencyKey: twin ? undefined : idempotencyKey },
        now,
      );
      const left = ratesIn(holders, now);
      return reply({ code: 'ok', hold, available: account.spendable(), ...left, ...shares(holders) });
    }
    if (!command.externalKey && key?.hash === undefined) return reply({ code: 'no_key' });
    if (!command.externalKey && key?.revokedAt !== undefined) return reply({ code: 'revoked' });
    if (!command.externalKey && key?.paused) return reply({ code: 'paused' });
    if (!command.externalKey && now >= (key?.expiresAt ?? Infinity)) return reply({ code: 'expired' });
    if (!command.externalKey && ![undefined, key?.version].includes(command.keyVersion)) {
      return reply({ code: 'changed' });
    }
    if (![undefined, account.policy?.version ?? 0].includes(command.accountVersion)) {
      return reply({ code: 'changed' });
    }
    key ??= newKey(keyId, undefined, { name: '' }, now);
    const holders = account.holdersFor(key, endUser, now);
    const rates = ratesIn(holders, now);
    if (twin && twin.idempotencyKey?.body !== idempotencyKey.body) {
      return reply({ code: 'key_reused', requestId: twin.id, ...rates });
    }
    if (twin) return reply({ code: 'repeated', requestId: twin.id, state: twin.state, ...rates });

    for (const { kind, limits, has } of holders) {
      const limit = limits.concurrentRequests ?? Infinity;
      if (account.running(has).length < limit) continue;
      return reply({ code: 'concurrency', limitedBy: kind, limit, ...rates });
    }
    for (const [code, count] of [
      ['requests_per_minute', 1],
      ['tokens_per_minute', command.tokens],
    ] as const) {
      const waits = holders.map((holder) => waitIn(holder, code, count, now));
      const longest = waits.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)[0];
      if (longest && longest.retryAfterMs > 0) return reply({ ...longest, ...rates });
    }

    const { want, min } = command;
    const tightest = account.room(holders, now);
    const room = tightest?.left;
    if (want > 0n && tightest && room !== undefined && (room < min || room <= 0n)) {
      return reply({ code: 'budget', ...tightest, left: room < 0n ? 0n : room, ...rates });
    }
    const available = account.spendable();
    if (want > 0n && (available < min || available <= 0n))
      return reply({ code: 'no_funds', available, ...rates });
    const least = [want, available, room ?? want].toSorted((a, b) => Number(a - b))[0] ?? 0n;
    const hold = want === 0n ? 0n : least;
    account.hold(holders, { ...command, requestId, hold, idempotencyKey }, now);
    const left = ratesIn(holders, now);
    return reply({ code: 'ok', hold, available: account.spendable(), ...left, ...shares(holders) });
  }

  extend({ account: name, requestId, hold, checkpoint, leaseMs, ...command }: Extend): ExtendResult {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    const request = account?.find(requestId);
    const reply = this.#replies(name, account?.lacks(command));
    if (!account || !request) return reply({ code: 'unknown' });
    if (request.state !== 'held') return reply({ code: 'closed', state: request.state });

    account.expireCredit(now);
    const holders = account.holdersOf(request);
    const more = hold - request.hold;
    const room = account.room(holders, now)?.left;
    const covered = more <= 0n || (more <= account.spendable() && (room === undefined || more <= room));
    if (covered && more > 0n) {
      request.hold = hold;
      enter(account, holders, now);
    }
    if (checkpoint > request.checkpoint) request.checkpoint = checkpoint;
    if (request.checkpoint > request.hold) request.checkpoint = request.hold;
    if (now + leaseMs > request.due) request.due = now + leaseMs;
    const code = covered ? 'ok' : 'no_funds';
    const spendable = account.spendable();
    const available = !covered && room !== undefined && room < spendable ? room : spendable;
    return reply({ code, hold: request.hold, available });
  }

  settle({
    account: name,
    requestId,
    amount,
    key: keyId,
    model,
    usage,
    dimensions,
    force,
    ...command
  }: Settle): SettleResult {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    if (!account) return { code: 'no_account', ...this.#at(name) };
    let request = account.find(requestId);
    const isNew = !request && timeOf(requestId) > account.lowWater();
    const isForgotten = !request && amount === 0n && account.mayHaveForgottenFree(requestId);
    const isLost = account.lacks(command) || (isNew && command.wasAdmitted === true && !isForgotten);
    const reply = this.#replies(name, isLost);
    if (isForgotten) return reply({ code: 'duplicate', charged: 0n });
    const inParts = isLost || command.inParts === true;
    const unspentBefore = account.available() + account.held();
    if (request?.state === 'settled') {
      const chargedBefore = request.charged;
      if (!inParts || !account.chargeMore(request, amount, now)) {
        const isPart = account.isPart(request, amount) ? { isPart: true as const } : {};
        return reply({ code: 'duplicate', charged: request.charged, ...isPart });
      }
      account.countBy(requestId, dimensions, { ...NO_COUNTS, charged: request.charged - chargedBefore });
      return reply({
        code: 'ok',
        charged: request.charged,
        writtenOff: 0n,
        available: account.available(),
        unspent: account.available() + account.held(),
        unspentBefore,
        ...(command.watchesBudgets && account.movedBudgets(request, request.charged - chargedBefore)),
      });
    }
    if (request?.state === 'voided') return reply({ code: 'voided' });
    if (!request && !force) return reply({ code: 'unknown' });
    if (!request && !isNew) return reply({ code: 'old' });

    account.renew(now);
    const unspentRenewed = account.available() + account.held();
    const type = !request ? 'o' : request.state === 'held' ? 's' : 'l';
    const held = type === 's' ? { hold: request?.hold ?? 0n } : {};
    if (!request) {
      const key = account.keys.find((each) => each.id === keyId);
      const stranger = newKey(keyId, undefined, { name: '' }, now);
      const all = account.holdersFor(key ?? stranger, command.endUser, now);
      const holders = key ? all : all.slice(1);
      account.keep(holders);
      const at = enter(account, holders, now);
      if (timeOf(requestId) > now - MINUTE) for (const { take } of holders) take('requests', 1, now);
      request = { ...blank(requestId, now), key: keyId, at, counts: countsIn(holders), state: 'expired' };
      account.requests.push(request);
    }
    if (!request.idempotencyKey) {
      const twin = account.twin(request.key, command.idempotencyKey?.key);
      if (twin && twin.state !== 'settled') twin.idempotencyKey = undefined;
      if (!twin?.idempotencyKey) request.idempotencyKey = command.idempotencyKey;
    }
    request.ended = { model, ending: usage.ending, usage };
    // The maximum total charge: what is available, its hold, and what it was charged already.
    const before = request.charged;
    const own = (request.state === 'held' ? request.hold : 0n) + before;
    const more = account.spendable();
    const spendable = own + (more > 0n ? more : 0n);
    const charged = amount < spendable ? amount : spendable;
    const lost = inParts ? 0n : amount - charged;
    account.giveTokens(request, usage.promptTokens + usage.completionTokens, now);
    const line = BigInt(account.lines.length + 1);
    Object.assign(request, {
      state: 'settled',
      charged,
      due: finalDue(requestId, now, amount === 0n && !request.idempotencyKey),
      line,
    });
    account.countBy(requestId, dimensions, usageOf(request, request.ended));
    account.burn(charged - before);
    const writtenOff = lost > 0n ? { writtenOff: lost } : {};
    const posted = { id: requestId, amount: charged - before, ...held, ...writtenOff };
    const said = { model, usage, ...(dimensions && { dimensions }) };
    account.write(now, { type, ...posted, key: request.key, ...said });
    account.expireCredit(now);
    const available = account.available();
    const unspent = available + account.held();
    const budgets = command.watchesBudgets && account.movedBudgets(request, charged - before);
    const most = unspentRenewed > unspentBefore ? unspentRenewed : unspentBefore;
    const unspents = { available, unspent, unspentBefore: most };
    return reply({ code: 'ok', charged, writtenOff: lost, ...unspents, ...budgets });
  }

  void({ account: name, requestId, key, model, ending, provider, dimensions, ...command }: Void): VoidResult {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    const reply = this.#replies(name, account?.lacks(command));
    if (!account) return reply({ code: 'no_account' });
    const request = account.find(requestId);
    if (request?.state === 'settled') return reply({ code: 'settled', charged: request.charged });
    if (request?.state === 'voided') return reply({ code: 'duplicate' });
    if (!request) {
      if (account.mayHaveForgottenFree(requestId)) return reply({ code: 'old' });
      const ended = key === undefined || model === undefined ? undefined : { model, ending };
      const tombstone = {
        ...blank(requestId, now),
        key: key ?? '',
        model: model ?? '',
        state: 'voided',
        due: finalDue(requestId, now, true),
      } as const;
      account.requests.push({ ...tombstone, ended, saidAtVoid: { ending, provider } });
      if (ended) account.countBy(requestId, dimensions, usageOf(tombstone, ended));
      return reply({ code: 'planted' });
    }
    const refund = request.charged;
    const released = request.state === 'held' ? request.hold : refund;
    account.giveTokens(request, 0, now);
    const due = finalDue(requestId, now, true);
    Object.assign(request, { state: 'voided', charged: 0n, due, line: undefined });
    request.idempotencyKey = undefined;
    request.ended = { model: model ?? request.ended?.model ?? request.model, ending };
    request.saidAtVoid = { ending, provider };
    account.countBy(requestId, dimensions, usageOf(request, request.ended));
    if (refund > 0n) account.write(now, { type: 'l', id: requestId, amount: -refund, key: request.key });
    account.expireCredit(now);
    return reply({ code: 'ok', released, available: account.available() });
  }

  grant({ account: name, id, amount, expiresAt, priority = 50, ...command }: Grant): GrantResult {
    const { now } = this.#clock;
    if (command.mustExist && !this.#accounts.has(name)) return { code: 'no_account', ...this.#at(name) };
    const account = this.#open(name);
    const reply = this.#replies(name, account.lacks(command));
    const terms = JSON.stringify(['grant', String(amount), expiresAt ?? null, priority]);
    const earlier = account.terms.get(id);
    if (earlier === terms) return reply({ code: 'duplicate', available: account.available() });
    if (earlier !== undefined) return reply({ code: 'conflict' });
    account.expireCredit(now);
    if (account.available() + account.held() + amount > 9_007_199_254_740_991n)
      return reply({ code: 'too_big' });
    if (account.openLots().length === 100) return reply({ code: 'too_many_lots' });
    account.terms.set(id, terms);
    account.write(now, { type: 'g', id, amount });
    account.addLot({ id, amount, expiresAt, priority }, amount);
    return reply({ code: 'ok', available: account.available() });
  }

  adjust({ account: name, id, delta, reason, force = false, ...command }: Adjust): AdjustResult {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    const reply = this.#replies(name, account?.lacks(command));
    if (!account) return reply({ code: 'no_account' });
    const terms = JSON.stringify(['adjust', String(delta), reason]);
    const earlier = account.terms.get(id);
    if (earlier === terms) return reply({ code: 'duplicate', available: account.available() });
    if (earlier !== undefined) return reply({ code: 'conflict' });
    account.expireCredit(now);
    const available = account.available();
    if (delta > 0n && available + account.held() + delta > 9_007_199_254_740_991n)
      return reply({ code: 'too_big' });
    const least = force ? -9_007_199_254_740_991n : account.floor;
    if (delta < 0n && available + delta < least) return reply({ code: 'below_floor', available });
    account.terms.set(id, terms);
    account.burn(-delta);
    account.write(now, { type: 'a', id, amount: delta, reason });
    if (force) account.frozen = true;
    if (force) account.sink(account.available());
    return reply({ code: 'ok', available: account.available() });
  }

  setFloor({ account: name, floor, from }: SetFloor): SetFloorResult {
    const account = this.#accounts.get(name);
    if (!account) return { code: 'no_account', ...this.#at(name) };
    const before = account.floor;
    if (from !== undefined && from !== before && floor !== before)
      return { code: 'changed', ...this.#at(name) };
    account.floor = floor;
    account.sink(floor);
    return { code: 'ok', before, available: account.available(), ...this.#at(name) };
  }

  allow({ account: name, id, change, version, until = Infinity, ...command }: Allow): AllowResult {
    const { now } = this.#clock;
    if (command.mustExist && !this.#accounts.has(name)) return { code: 'no_account', ...this.#at(name) };
    const account = this.#open(name);
    const reply = this.#replies(name, account.lacks(command));
    account.expireCredit(now);
    const known = account.allowances.find((each) => each.id === id);
    if (!known && until <= now) return reply({ code: 'ended' });
    if (!known && account.allowances.length === 10) return reply({ code: 'too_many_allowances' });
    if (known && (known.per !== command.per || known.anchor !== command.anchor)) {
      return reply({ code: 'conflict' });
    }
    const { amount, per, anchor, rollover, priority } = command;
    const terms = { amount, rollover, priority, until };
    const { amount: was, rollover: kept, priority: rank, until: end } = known ?? terms;
    const isSame = isDeepStrictEqual(terms, { amount: was, rollover: kept, priority: rank, until: end });
    const isProrated = change !== 'prorate' || known?.granted === amount;
    const isKnown = known && ((version !== undefined && known.version >= version) || (isSame && isProrated));
    const allowance = known ?? {
      id,
      per,
      anchor,
      ...terms,
      version: 1,
      granted: amount,
      period: periodAt({ per, anchor }, now),
    };
    if (!known) {
      account.allowances.push(allowance);
      account.grantPeriods(allowance, [allowance.period], now);
    } else if (!isKnown) {
      known.version += 1;
      if (change === 'prorate') account.prorate(known, terms, now);
      if (change === 'prorate') known.granted = amount;
      Object.assign(known, terms);
    }
    return reply({
      code: isKnown ? 'duplicate' : 'ok',
      available: account.available(),
      version: allowance.version,
      resetsAt: startOf(allowance, allowance.period + 1),
    });
  }

  endAllowance({ account: name, id, at, version, ...command }: EndAllowance): EndAllowanceResult {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    const reply = this.#replies(name, account?.lacks(command));
    if (!account) return reply({ code: 'no_account' });
    account.expireCredit(now);
    const allowance = account.allowances.find((each) => each.id === id);
    if (!allowance) return reply({ code: 'no_allowance' });
    const end = at === 'now' ? now : startOf(allowance, allowance.period + 1);
    const hasEnded = allowance.until <= end && (at === 'period_end' || allowance.granted === 0n);
    if (hasEnded || (version !== undefined && allowance.version >= version)) {
      return reply({ code: 'duplicate', available: account.available(), version: allowance.version });
    }
    allowance.version += 1;
    if (end < allowance.until) allowance.until = end;
    if (at === 'now') {
      allowance.granted = 0n;
      for (const lot of account.lotsOf(allowance)) lot.expiresAt = now;
      account.expireCredit(now);
    }
    return reply({ code: 'ok', available: account.available(), version: allowance.version });
  }

  refund({
    account: name,
    requestId,
    amount,
    charged,
    key,
    model,
    reason,
    dimensions,
    ...command
  }: Refund): RefundResult {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    const reply = this.#replies(name, account?.lacks(command));
    if (!account) return reply({ code: 'no_account' });
    const id = `refund:${requestId}`;
    const earlier = account.terms.get(id);
    if (earlier === String(amount)) return reply({ code: 'duplicate', available: account.available() });
    if (earlier !== undefined) return reply({ code: 'conflict' });
    const request = account.find(requestId);
    if (request?.state === 'held' || request?.state === 'expired') return reply({ code: 'not_settled' });
    const most = request?.charged ?? charged;
    if (amount > most) return reply({ code: 'more_than_charged', charged: most });
    account.expireCredit(now);
    if (account.available() + account.held() + amount > 9_007_199_254_740_991n) {
      return reply({ code: 'too_big' });
    }
    account.terms.set(id, String(amount));
    if (request) request.refunded = amount;
    if (!request) account.giveBack({ key, user: dimensions?.['user'], at: timeOf(requestId) }, amount);
    const of = request ? recordOf(request) : { key, model };
    const row = { key: of.key, model: of.model ?? '' };
    account.refunds.push({ ...NO_COUNTS, ...row, day: dayOf(requestId), charged: -amount });
    account.countBy(requestId, dimensions, { ...NO_COUNTS, charged: -amount });
    const said = { reason, ...(dimensions && { dimensions }) };
    account.write(now, { type: 'r', id: requestId, amount: -amount, ...row, ...said });
    return reply({ code: 'ok', available: account.available() });
  }

  deleteAccount(name: string): DeleteAccountResult {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    if (!account) return { code: 'no_account' };
    account.reap(Infinity, now);
    const requests = account.running().length;
    if (requests > 0) return { code: 'running', requests };
    account.expireCredit(now);
    this.#accounts.delete(name);
    this.#deletions.set(name, now);
    const [granted, available, spent] = [account.granted(), account.available(), account.spent()];
    const [expired, writtenOff] = [account.expired(), account.writtenOff()];
    const deleted = { id: '', deletedAt: now, granted, available, spent, expired, writtenOff };
    return { code: 'ok', deleted };
  }

  verify({ account: name, ...command }: Verify): VerifyResult {
    const account = this.#accounts.get(name);
    const missing = account?.missing(command) ?? [];
    const reply = this.#replies(name, missing.length > 0);
    return reply({ code: account ? 'ok' : 'no_account', ...(missing.length > 0 && { missing }) });
  }

  /** Ends and deletes everything that is due. With a small budget, the store chooses which. */
  sweep(): number {
    const { now } = this.#clock;
    let count = 0;
    for (const account of this.#accounts.values()) {
      count += account.reap(Infinity, now);
      account.expireCredit(now);
    }
    return count;
  }

  balance(name: string): Balance | undefined {
    const account = this.#accounts.get(name);
    account?.expireCredit(this.#clock.now);
    return (
      account && {
        available: account.available(),
        held: account.held(),
        spent: account.spent(),
        granted: account.granted(),
        expired: account.expired(),
        writtenOff: account.writtenOff(),
        floor: account.floor,
        frozen: account.frozen,
        seq: BigInt(account.lines.length),
        lots: account.lotStates(),
        allowances: account.allowances.map(allowanceState),
      }
    );
  }

  createKey({ account: name, key, hash, mustExist, ...terms }: CreateKey): CreateKeyResult {
    const known = this.#accounts.get(name)?.keys.find((each) => each.id === key);
    const holder = this.#holderOf(hash);
    if (known?.hash === undefined && !holder) {
      if (mustExist && !this.#accounts.has(name)) return { code: 'no_account', ...this.#at(name) };
      const made = newKey(key, hash, terms, this.#clock.now);
      if (known) Object.assign(known, made, { createdAt: known.createdAt, countedAt: known.countedAt });
      else this.#open(name).addKey(made);
      return { code: 'ok', ...this.#at(name) };
    }
    const same =
      known !== undefined && known.hash === hash && isDeepStrictEqual(termsOf(known), filled(terms));
    return { code: same ? 'ok' : 'conflict', ...this.#at(name) };
  }

  findKey(hash: string): FoundKey | undefined {
    const holder = this.#holderOf(hash);
    if (!holder) return undefined;
    const policy = this.#accounts.get(holder.owner)?.policy;
    const accountPolicy = policy && {
      version: policy.version,
      ...(policy.policy !== undefined && { policy: policy.policy }),
    };
    const record = { ...keyRecord(holder.owner, holder.key), ...(accountPolicy && { accountPolicy }) };
    if (holder.key.hash === hash) return record;
    const until = holder.key.previous?.until ?? 0;
    return this.#clock.now < until ? { ...record, hashUntil: until } : undefined;
  }

  keyState(name: string, id: string): KeyStatus | undefined {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    const key =
      id === '@' ? account?.policy : account?.keys.find((each) => each.id === id && each.hash !== undefined);
    if (!account || !key) return undefined;
    const holder = id === '@' ? account.policyHolder(key) : account.keyHolder(key);
    return { ...keyRecord(name, key), ...countersStatus(account, holder, now) };
  }

  endUserState(name: string, endUser: string, id?: string): EndUserStatus | undefined {
    const { now } = this.#clock;
    const account = this.#accounts.get(name);
    const key = account?.keys.find((each) => each.id === id) ?? newKey('', undefined, { name: '' }, now);
    const holder = account?.holdersFor(key, endUser, now).find(({ kind }) => kind === 'end_user');
    if (!account || !holder) return undefined;
    const { key: scope } = holder.of as User;
    return {
      ...(scope !== '' && { key: scope }),
      endUser,
      ...shares([holder]),
      ...countersStatus(account, holder, now),
    };
  }

  updateKey({ account: name, key: id, version, ...terms }: UpdateKey): UpdateKeyResult {
    const { now } = this.#clock;
    const reply = <T>(result: T): T & At => ({ ...result, ...this.#at(name) });
    const account = this.#accounts.get(name);
    const recorded = account?.keys.find((each) => each.id === id && each.hash !== undefined);
    const policy = account?.policy ?? { ...newKey(id, undefined, { name: '' }, now), version: 0 };
    const key = id === '@' ? policy : recorded;
    if (!account || !key) return reply({ code: 'no_key' });
    const before = key.limits;
    if (key.version > 0 && isDeepStrictEqual(termsOf(key), filled(terms)))
      return reply({ code: 'ok', version: key.version });
    if (version !== key.version) return reply({ code: 'changed' });
    if (id === '@') account.policy = key;
    key.version += 1;
    Object.assign(key, filled(terms));
    if (key.limits.requestsPerMinute !== before.requestsPerMinute) key.requests = { since: now, takes: [] };
    if (key.limits.tokensPerMinute !== before.tokensPerMinute) key.tokens = { since: now, takes: [] };
    return reply({ code: 'ok', version: key.version });
  }

  rotateKey({ account: name, key: id, hash, version, overlapMs }: RotateKey): RotateKeyResult {
    const { now } = this.#clock;
    const reply = <T>(result: T): T & At => ({ ...result, ...this.#at(name) });
    const key = this.#accounts.get(name)?.keys.find((each) => each.id === id && each.hash !== undefined);
    if (!key) return reply({ code: 'no_key' });
    if (key.hash === hash) return reply({ code: 'ok', version: key.version });
    if (key.revokedAt !== undefined) return reply({ code: 'revoked' });
    if (version !== key.version) return reply({ code: 'changed' });
    if (this.#holderOf(hash)) return reply({ code: 'conflict' });
    const { hash: old } = key;
    key.version += 1;
    key.hash = hash;
    key.previous = overlapMs > 0 && old !== undefined ? { hash: old, until: now + overlapMs } : undefined;
    return reply({ code: 'ok', version: key.version });
  }

  revokeKey(name: string, id: string): boolean {
    const key = this.#accounts.get(name)?.keys.find((each) => each.id === id && each.hash !== undefined);
    if (key && key.revokedAt === undefined) {
      key.revokedAt = this.#clock.now;
      key.version += 1;
    }
    return key !== undefined;
  }

  /** Rows with a count other than 0. */
  usage(name: string, fromDay: string, toDay: string): UsageRow[] {
    const rows = this.#accounts.get(name)?.usage() ?? [];
    return rows.filter(({ day }) => day >= fromDay && day <= toDay);
  }

  /** As `usage`. */
  usageBy(name: string, dimension: string, fromDay: string, toDay: string): DimensionRow[] {
    const rows = this.#accounts.get(name)?.dimensionUsage() ?? [];
    return rows.filter((row) => row.dimension === dimension && row.day >= fromDay && row.day <= toDay);
  }

  compactUsage(name: string, beforeDay: string): void {
    const account = this.#accounts.get(name);
    if (account) account.byDimension = account.byDimension.filter(({ day }) => day >= beforeDay);
    account?.compactedUsage.push(...account.usage().filter(({ day }) => day < beforeDay));
  }

  prune(name: string): number {
    const account = this.#accounts.get(name);
    const { now } = this.#clock;
    if (!account) return 0;
    const users = account.users.filter((user) => account.isAsNew(account.userHolder(user), now));
    for (const user of users) account.users.splice(account.users.indexOf(user), 1);
    const sessions = account.keys.filter((key) => {
      const runs = account.running(account.keyHolder(key).has).length > 0;
      const isSession = key.id.startsWith('ses-') && key.hash !== undefined && !runs;
      return isSession && now >= (key.expiresAt ?? Infinity) + DAY;
    });
    for (const key of sessions) account.keys.splice(account.keys.indexOf(key), 1);
    return users.length + sessions.length;
  }

  freeze(name: string, frozen: boolean): boolean {
    const account = this.#accounts.get(name);
    if (account) account.frozen = frozen;
    return account !== undefined;
  }

  compact(name: string, seq: bigint): void {
    const account = this.#accounts.get(name);
    const last = account?.lines.findLast((line) => line.seq <= seq)?.seq;
    if (account && last !== undefined && last > account.compactedSeq) account.compactedSeq = last;
  }

  journal(name: string): readonly JournalLine[] {
    const account = this.#accounts.get(name);
    return account ? account.lines.filter((line) => line.seq > account.compactedSeq) : [];
  }

  /** Requests and keys are sorted by id. */
  snapshot(name: string): AccountState | undefined {
    const account = this.#accounts.get(name);
    if (!account) return undefined;
    const compacted = account.lines.filter((line) => line.seq <= account.compactedSeq);
    return {
      granted: account.granted(),
      available: account.available(),
      held: account.held(),
      spent: account.spent(),
      expired: account.expired(),
      writtenOff: account.writtenOff(),
      floor: account.floor,
      lowestFloor: account.lowestFloor,
      frozen: account.frozen,
      seq: BigInt(account.lines.length),
      lowWater: account.lowWater(),
      freeLowWater: account.freeLowWater(),
      requests: account.requests
        .filter((request) => !request.forgotten)
        .map(recordOf)
        .toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      lots: account.lotStates(),
      allowances: account.allowances.map(allowanceState),
      keys: account.keys
        .map((key) => keyState(name, account, account.keyHolder(key), key))
        .toSorted((a, b) => (a.key < b.key ? -1 : 1)),
      ...(account.policy && {
        policy: keyState(name, account, account.policyHolder(account.policy), account.policy),
      }),
      endUsers: account.users
        .map((user) => account.endUserState(user))
        .toSorted((a, b) => (endUserId(a) < endUserId(b) ? -1 : 1)),
      compacted: {
        seq: account.compactedSeq,
        at: Math.max(0, ...compacted.map((line) => line.at)),
        granted: total(amounts(compacted, 'ga')),
        spent: total(amounts(compacted, 'sloer')),
        expired: total(amounts(compacted, 'x')),
        writtenOff: total(compacted.map((line) => line.writtenOff ?? 0n)),
      },
      usage: account.usage(),
      usageCompacted: total(account.compactedUsage.map(({ charged }) => charged)),
      dimensionUsage: account.dimensionUsage(),
    };
  }

  request(name: string, id: string): RequestRecord | undefined {
    const request = this.#accounts.get(name)?.find(id);
    return request && recordOf(request);
  }

  /** The key whose current or previous hash it is. */
  #holderOf(hash: string): { readonly owner: string; readonly key: Key } | undefined {
    for (const [owner, { keys }] of this.#accounts) {
      const key = keys.find((each) => each.hash === hash || each.previous?.hash === hash);
      if (key) return { owner, key };
    }
    return undefined;
  }

  #replies(name: string, isLost: boolean | undefined): <T>(result: T) => T & At {
    const rolledBack = isLost === true ? { rolledBack: true as const } : {};
    return (result) => ({ ...result, ...this.#at(name), ...rolledBack });
  }

  /** How far back the clock may be set: a store may have forgotten a deletion of a day ago, so it must stay a day ago. */
  earliest(): number {
    const { now } = this.#clock;
    return Math.max(0, ...[...this.#deletions.values()].map((at) => at + DAY).filter((time) => time <= now));
  }

  #at(name: string): At {
    return { now: this.#clock.now, seq: BigInt(this.#accounts.get(name)?.lines.length ?? 0) };
  }

  #open(name: string): Account {
    const { now } = this.#clock;
    const deletedAt = this.#deletions.get(name) ?? 0;
    const isOfToday = now - deletedAt < DAY;
    const account = this.#accounts.get(name) ?? new Account(isOfToday ? Math.min(deletedAt, now) : 0);
    this.#accounts.set(name, account);
    return account;
  }
}

class Account {
  readonly requests: Request[] = [];
  policy: Key | undefined;
  readonly users: User[] = [];
  readonly keys: Key[] = [];
  readonly lots: Lot[] = [];
  readonly lines: JournalLine[] = [];
  /** Usage rows, as they were compacted. */
  readonly compactedUsage: UsageRow[] = [];
  /** Id of a grant or adjustment -> its parameters. */
  readonly terms = new Map<string, string>();
  readonly allowances: ModelAllowance[] = [];
  /** Rows that take back charges. */
  readonly refunds: UsageRow[] = [];
  /** What they returned to the budgets of those whose request has no record. */
  readonly #givenBack: { of: Key | User; amounts: Record<BudgetPeriod, bigint> }[] = [];
  /** What was counted by dimension, one by one. */
  byDimension: DimensionRow[] = [];
  /** Requests until then were those of an account that was deleted. */
  readonly #firstLowWater: number;
  floor = 0n;
  lowestFloor = 0n;
  frozen = false;
  compactedSeq = 0n;

  constructor(firstLowWater: number) {
    this.#firstLowWater = firstLowWater;
  }

  granted = (): bigint => total(amounts(this.lines, 'ga'));
  spent = (): bigint => total(amounts(this.lines, 'sloer'));
  expired = (): bigint => total(amounts(this.lines, 'x'));
  held = (): bigint => total(this.running().map((request) => request.hold));
  writtenOff = (): bigint => total(this.lines.map((line) => line.writtenOff ?? 0n));
  available = (): bigint => this.granted() - this.spent() - this.expired() - this.held();
  spendable = (): bigint => this.available() - this.floor;
  lowWater = (): number =>
    Math.max(
      this.#firstLowWater,
      this.#newestForgotten(({ forgotten }) => forgotten === 'late'),
    );
  /** For requests that cost nothing, whose records are deleted sooner. */
  freeLowWater = (): number => this.#newestForgotten(({ forgotten }) => forgotten === 'soon');
  mayHaveForgottenFree = (id: string): boolean =>
    timeOf(id) <= Math.max(this.lowWater(), this.freeLowWater());

  #newestForgotten(isOne: (request: Request) => boolean): number {
    return Math.max(0, ...this.requests.filter(isOne).map(({ id }) => timeOf(id)));
  }

  /** Usage of ended requests, by day, key and model, without compacted rows; sorted. */
  usage(): UsageRow[] {
    const rows = new Map<string, UsageRow>();
    const add = (row: UsageRow, sign: 1 | -1): void => {
      const id = `${row.day} ${row.key} ${row.model}`;
      const before = rows.get(id) ?? { ...NO_COUNTS, day: row.day, key: row.key, model: row.model };
      rows.set(id, summed(before, row, sign));
    };
    for (const request of this.requests) if (request.ended) add(usageOf(request, request.ended), 1);
    for (const row of this.refunds) add(row, 1);
    for (const row of this.compactedUsage) add(row, -1);
    return [...rows]
      .filter(([, row]) => countsSomething(row))
      .toSorted(byFirst)
      .map(([, row]) => row);
  }

  countBy(id: string, dimensions: Dimensions = {}, counts: UsageCounts): void {
    for (const [dimension, value] of Object.entries(dimensions)) {
      this.byDimension.push({ ...pickCounts(counts), day: dayOf(id), dimension, value });
    }
  }

  /** By day, dimension and value; sorted. */
  dimensionUsage(): DimensionRow[] {
    const rows = new Map<string, DimensionRow>();
    for (const row of this.byDimension) {
      const { day, dimension, value } = row;
      const id = `${day} ${dimension} ${value}`;
      rows.set(id, summed(rows.get(id) ?? { ...NO_COUNTS, day, dimension, value }, row, 1));
    }
    return [...rows]
      .filter(([, row]) => countsSomething(row))
      .toSorted(byFirst)
      .map(([, row]) => row);
  }

  find(id: string): Request | undefined {
    return this.requests.find((request) => request.id === id && !request.forgotten);
  }

  running(has: (request: Request) => boolean = () => true): Request[] {
    return this.requests.filter((request) => request.state === 'held' && has(request));
  }

  /** Total charge of a holder's requests, or of those that were admitted in the same period as `at`. */
  charged({ kind, has, of }: Holder, per: BudgetPeriod = 'lifetime', at = 0): bigint {
    if (windowOf(per, of.countedAt) !== windowOf(per, at)) return 0n;
    const counted = this.requests.filter(
      (request) => has(request) && windowOf(per, request.at) === windowOf(per, at),
    );
    const charges = counted.map(
      (request) => netCharge(request) - (request.uncounted[`${kind} ${per}`] ?? 0n),
    );
    const back = this.#givenBack.filter((each) => each.of === of);
    return total(charges) - total(back.map(({ amounts }) => amounts[per]));
  }

  /** A refund of a request without a record: its holders are those of now, as far as they have that much. */
  giveBack(
    { key: id, user, at }: { key: string; user: string | undefined; at: number },
    amount: bigint,
  ): void {
    const key = this.keys.find((each) => each.id === id);
    const { policy } = this;
    const scope = key?.endUsers ? key.id : policy?.endUsers ? '' : undefined;
    const endUser = this.users.find((each) => each.key === scope && each.id === user);
    const holders = [
      ...(key ? [this.keyHolder(key)] : []),
      ...(policy && policy.createdAt <= at ? [this.policyHolder(policy)] : []),
      ...(endUser ? [this.userHolder(endUser)] : []),
    ];
    for (const holder of holders) {
      const { of } = holder;
      const spent = this.charged(holder);
      if (spent <= 0n) continue;
      const back = between(0n, amount, spent);
      const amounts = PERIODS.map((per) => {
        const isCounting = windowOf(per, Math.min(at, of.countedAt)) === windowOf(per, of.countedAt);
        const inWindow = this.charged(holder, per, of.countedAt);
        const before = spent - inWindow;
        // What was spent before the window is at least 0, and at most all of it.
        const left = spent - back - between(0n, isCounting ? before : before - back, spent - back);
        return [per, inWindow - left];
      });
      this.#givenBack.push({ of, amounts: Object.fromEntries(amounts) });
    }
  }

  /** Begins windows: what was charged until now counts no more in them. */
  begin({ kind, has, of }: Holder, periods: readonly BudgetPeriod[]): void {
    for (const each of this.#givenBack) {
      if (each.of === of) for (const per of periods) each.amounts[per] = 0n;
    }
    for (const request of this.requests) {
      if (!has(request)) continue;
      for (const per of periods) request.uncounted[`${kind} ${per}`] = netCharge(request);
    }
  }

  /** Whether a new holder would count the same. */
  isAsNew({ limits, has, of, rate }: Holder, now: number): boolean {
    if (this.running(has).length > 0) return false;
    const budgets = limits.budgets ?? [];
    if (
      budgets.some(
        ({ per }) => windowOf(per, countingTime(of.countedAt, now)) === windowOf(per, of.countedAt),
      )
    )
      return false;
    const rates = (['requests', 'tokens'] as const).map((name) => rate(name, now));
    return rates.every((each) => !each || each.level === each.limit * MINUTE);
  }

  /** What a charge did to the budgets in whose current window it counts. */
  movedBudgets(request: Request, moved: bigint): { budgets?: MovedBudget[] } {
    const budgets = this.holdersOf(request).flatMap((holder) => {
      const { kind, of, limits } = holder;
      const whose = {
        limitedBy: kind,
        ...(kind === 'key' && { key: request.key }),
        ...(kind === 'end_user' && userOf(request.counts.user ?? '')),
      };
      const current = (limits.budgets ?? []).filter(
        ({ per }) => windowOf(per, request.at) === windowOf(per, of.countedAt),
      );
      return current.map(({ amount, per }): MovedBudget => {
        const spent = this.charged(holder, per, of.countedAt);
        const next = nextWindow(per, of.countedAt);
        const resets = next !== undefined && { resetsAt: next };
        return { ...whose, amount, per, spent, ...resets, spentBefore: spent - moved };
      });
    });
    return budgets.length > 0 ? { budgets } : {};
  }

  /** The tightest budget; undefined without one. */
  room(
    holders: readonly Holder[],
    now: number,
  ): Pick<Extract<ExceededLimit, { code: 'budget' }>, 'limitedBy' | 'budget' | 'left'> | undefined {
    const rooms = holders.flatMap((holder) =>
      (holder.limits.budgets ?? []).map((budget) => {
        const holds = total(this.running(holder.has).map((request) => request.hold));
        const spent = this.charged(holder, budget.per, countingTime(holder.of.countedAt, now));
        return { limitedBy: holder.kind, budget, left: budget.amount - spent - holds };
      }),
    );
    return rooms.toSorted((a, b) => Number(a.left - b.left))[0];
  }

  keyHolder(key: Key): Holder {
    return {
      kind: 'key',
      of: key,
      limits: key.limits,
      has: ({ key: id, counts }) => counts.key && id === key.id,
      rate: (name, now) => {
        const limit = name === 'requests' ? key.limits.requestsPerMinute : key.limits.tokensPerMinute;
        return limit === undefined ? undefined : { limit, ...levelOf(limit, key[name], now) };
      },
      take: (name, count, now) => void key[name].takes.push({ at: now, count }),
    };
  }

  policyHolder(policy: Key): Holder {
    return { ...this.keyHolder(policy), kind: 'account', has: ({ counts }) => counts.account };
  }

  userHolder(user: User): Holder {
    const scope = user.key === '' ? this.policy : this.keys.find(({ id }) => id === user.key);
    const limits = scope?.endUsers ?? {};
    const limitOf = (name: 'requests' | 'tokens'): number | undefined =>
      name === 'requests' ? limits.requestsPerMinute : limits.tokensPerMinute;
    return {
      kind: 'end_user',
      of: user,
      limits,
      has: ({ counts }) => counts.user === `${user.key}~${user.id}`,
      rate: (name, now) => {
        const limit = limitOf(name);
        return limit === undefined ? undefined : { limit, level: userLevel(user[name], limit, now) };
      },
      take: (name, count, now) => {
        const limit = limitOf(name);
        if (limit === undefined) return;
        const level = userLevel(user[name], limit, now) - count * MINUTE;
        const most = limit * MINUTE;
        user[name] = {
          level: Math.min(most, Math.max(-60 * most, level)),
          at: countingTime(user[name].at, now),
        };
      },
    };
  }

  /** Key, account and end user of a request that is to be admitted. */
  holdersFor(key: Key, endUser: string | undefined, now: number): Holder[] {
    const holders = [this.keyHolder(key)];
    if (this.policy) holders.push(this.policyHolder(this.policy));
    const limits = key.endUsers ?? this.policy?.endUsers;
    if (!limits || endUser === undefined) return holders;
    const scope = key.endUsers ? key.id : '';
    const find = (id: string): User | undefined =>
      this.users.find((user) => user.key === scope && user.id === id);
    const full = find(endUser) === undefined && this.users.length >= (limits.max ?? 10_000);
    const id = full ? '' : endUser;
    const fresh = {
      key: scope,
      id,
      countedAt: now,
      requests: { level: (limits.requestsPerMinute ?? 0) * MINUTE, at: now },
      tokens: { level: (limits.tokensPerMinute ?? 0) * MINUTE, at: now },
    };
    const known = find(id);
    const holder = this.userHolder(known ?? fresh);
    // Another one of the same id may have been removed.
    if (!known) this.begin(holder, PERIODS);
    return [...holders, { ...holder, shares: full }];
  }

  holdersOf({ key: id, counts }: Request): Holder[] {
    const key = this.keys.find((each) => each.id === id);
    const user = this.users.find((each) => counts.user === `${each.key}~${each.id}`);
    return [
      ...(key && counts.key ? [this.keyHolder(key)] : []),
      ...(this.policy && counts.account ? [this.policyHolder(this.policy)] : []),
      ...(user ? [this.userHolder(user)] : []),
    ];
  }

  /** Adds the holders that are new. */
  keep(holders: readonly Holder[]): void {
    for (const { kind, of } of holders) {
      if (kind === 'key' && !this.keys.includes(of as Key)) this.addKey(of as Key);
      if (kind === 'end_user' && !this.users.includes(of as User)) this.users.push(of as User);
    }
  }

  addKey(key: Key): void {
    this.keys.push(key);
    this.begin(this.keyHolder(key), PERIODS);
  }

  endUserState(user: User): EndUserState {
    const holder = this.userHolder(user);
    return {
      ...(user.key !== '' && { key: user.key }),
      endUser: user.id,
      ...counters(this, holder),
      ...(holder.limits.requestsPerMinute && { requestBucket: user.requests }),
      ...(holder.limits.tokensPerMinute && { tokenBucket: user.tokens }),
    };
  }

  /** The request that has the idempotency key: of all that ever had it, the one that wasn't voided. */
  twin(key: string, idempotencyKey: string | undefined): Request | undefined {
    if (idempotencyKey === undefined) return undefined;
    const having = this.requests.filter(
      (request) => request.key === key && request.idempotencyKey?.key === idempotencyKey,
    );
    return having.find((request) => request.state !== 'voided' && !request.forgotten);
  }

  hold(holders: readonly Holder[], command: Hold, now: number): void {
    const { requestId, hold, tokens, leaseMs, idempotencyKey, model = '' } = command;
    this.keep(holders);
    const at = enter(this, holders, now);
    for (const { take } of holders) {
      take('requests', 1, now);
      if (tokens > 0) take('tokens', tokens, now);
    }
    this.requests.push({
      id: requestId,
      state: 'held',
      key: (holders[0]!.of as Key).id,
      at,
      counts: countsIn(holders),
      hold,
      charged: 0n,
      uncounted: {},
      checkpoint: 0n,
      tokens,
      idempotencyKey,
      due: now + leaseMs,
      forgotten: false,
      model,
      ended: undefined,
      line: undefined,
      saidAtVoid: {},
    });
  }

  openLots(): Lot[] {
    const rank = ({ priority, expiresAt = 8.64e15, id }: Lot): string =>
      `${String(priority).padStart(3, '0')} ${String(expiresAt).padStart(16, '0')} ${id}`;
    return this.lots.filter((lot) => lot.remaining > 0n).toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1));
  }

  /** One nano-dollar at a time, each from the lot that is first then. */
  burn(amount: bigint): void {
    for (let left = amount; left > 0n; left--) {
      const [first] = this.openLots();
      if (first) first.remaining--;
    }
  }

  expireCredit(now: number): void {
    this.#expireLots(now);
    this.renew(now);
    this.#expireLots(now);
  }

  #expireLots(now: number): void {
    for (const lot of this.openLots()) {
      if (lot.expiresAt === undefined || lot.expiresAt > now) continue;
      const available = this.available();
      const amount = available < lot.remaining ? available : lot.remaining;
      if (amount <= 0n) continue;
      lot.remaining -= amount;
      this.write(now, { type: 'x', id: lot.id, amount });
    }
  }

  renew(now: number): void {
    for (const allowance of this.allowances.slice()) {
      const missed = missedPeriods(allowance, now);
      const current = missed.at(-1);
      if (current !== undefined) {
        allowance.period = current;
        allowance.granted = allowance.amount;
        this.grantPeriods(allowance, missed, now);
      }
      const isOver = startOf(allowance, allowance.period + 1) <= now;
      if (isOver) this.allowances.splice(this.allowances.indexOf(allowance), 1);
    }
  }

  grantPeriods(allowance: ModelAllowance, periods: readonly number[], now: number): void {
    if (allowance.rollover === 'all') this.#grantAll(allowance, periods.length, now);
    else for (const n of periods.slice(-2)) this.#grantPeriod(allowance, n, now);
  }

  #grantPeriod(allowance: ModelAllowance, n: number, now: number): void {
    const expiresAt = expiryOf(allowance, n);
    const amount = this.#upToRoom(allowance.amount);
    if ((expiresAt !== undefined && expiresAt <= now) || amount <= 0n) return;
    this.#grantLot(allowance, n, expiresAt, amount, 0n, now);
  }

  #grantAll(allowance: ModelAllowance, missed: number, now: number): void {
    const amount = this.#upToRoom(allowance.amount * BigInt(missed));
    if (amount <= 0n) return;
    const earlier = this.lotsOf(allowance).filter((lot) => lot.expiresAt === undefined);
    const kept = total(earlier.map((lot) => lot.remaining));
    for (const lot of earlier) lot.remaining = 0n;
    this.#grantLot(allowance, allowance.period, undefined, amount, kept, now);
  }

  #grantLot(
    allowance: ModelAllowance,
    n: number,
    expiresAt: number | undefined,
    amount: bigint,
    kept: bigint,
    now: number,
  ): void {
    const id = lotIdOf(allowance, n);
    const lot = this.openLots().find((each) => each.id === id);
    const lasts = lot && (expiresAt ?? Infinity) >= (lot.expiresAt ?? Infinity);
    const all = amount + kept + (lasts ? lot.remaining : 0n);
    if (lot) lot.remaining = 0n;
    this.write(now, { type: 'g', id, amount });
    this.addLot({ id, amount: all, expiresAt, priority: allowance.priority }, all);
  }

  prorate(
    allowance: ModelAllowance,
    { amount, rollover, priority }: Pick<ModelAllowance, 'amount' | 'rollover' | 'priority'>,
    now: number,
  ): void {
    const [start, end] = [startOf(allowance, allowance.period), startOf(allowance, allowance.period + 1)];
    // The clock may have stepped back.
    const left = end - (now < start ? start : now);
    const change = ((amount - allowance.granted) * BigInt(left)) / BigInt(end - start);
    const id = lotIdOf(allowance, allowance.period);
    const lot = this.openLots().find((each) => each.id === id);
    const least = [-change, lot?.remaining ?? 0n, this.available() > 0n ? this.available() : 0n];
    const delta = change > 0n ? this.#upToRoom(change) : -(least.toSorted((a, b) => Number(a - b))[0] ?? 0n);
    if (delta === 0n) return;
    this.write(now, { type: 'a', id: `${id}:${allowance.version}`, amount: delta, reason: 'prorated' });
    if (delta < 0n && lot) lot.remaining += delta;
    if (delta < 0n) return;
    const isDue = lot?.expiresAt !== undefined && lot.expiresAt <= now;
    const expiresAt = lot && !isDue ? lot.expiresAt : expiryOf(allowance, allowance.period, rollover);
    const remaining = (lot?.remaining ?? 0n) + delta;
    if (lot) lot.remaining = 0n;
    const granted = (lot?.amount ?? 0n) + delta;
    const most = 2n ** 53n - 1n;
    this.addLot(
      { id, amount: granted < most ? granted : most, expiresAt, priority: lot?.priority ?? priority },
      remaining,
    );
  }

  /** Called after the line: what exceeds the balance and the holds paid a debt. */
  addLot(lot: Omit<Lot, 'remaining'>, remaining: bigint): void {
    const others = total(this.openLots().map((each) => each.remaining));
    const room = this.available() + this.held() - others;
    const left = remaining < room ? remaining : room;
    if (left > 0n) this.lots.push({ ...lot, remaining: left });
  }

  lotsOf({ id }: ModelAllowance): Lot[] {
    return this.openLots().filter((lot) => lot.id.startsWith(`allowance:${id}:`));
  }

  lotStates = (): AccountState['lots'] =>
    this.openLots().map(({ expiresAt, ...lot }) => ({
      ...lot,
      ...(expiresAt !== undefined && { expiresAt }),
    }));

  #upToRoom(amount: bigint): bigint {
    const most = 9_007_199_254_740_991n;
    const rooms = [amount, most, most - this.available() - this.held()];
    return rooms.toSorted((a, b) => Number(a - b))[0]!;
  }

  sink(floor: bigint): void {
    if (floor < this.lowestFloor) this.lowestFloor = floor;
  }

  reap(most: number, now: number): number {
    const due = this.requests
      .filter((request) => !request.forgotten && request.due <= now)
      .toSorted((a, b) => a.due - b.due || (a.id < b.id ? -1 : 1))
      .slice(0, most);
    for (const request of due) {
      if (request.state === 'held') {
        const { id, hold, checkpoint, key } = request;
        const line = BigInt(this.lines.length + 1);
        Object.assign(request, { state: 'expired', charged: checkpoint, due: finalDue(id, now), line });
        request.ended = { model: request.model, ending: undefined };
        this.burn(checkpoint);
        this.write(now, { type: 'e', id, amount: checkpoint, hold, key });
      } else {
        request.forgotten = request.due - timeOf(request.id) >= DAY ? 'late' : 'soon';
      }
    }
    return due.length;
  }

  /** Charges a further part, unless the rest is known to be written off; returns whether anything moved. */
  chargeMore(request: Request, amount: bigint, now: number): boolean {
    const { id, key } = request;
    const missing = amount - request.charged;
    const spendable = this.spendable();
    const moved = missing < spendable ? missing : spendable;
    if (!this.isPart(request, amount) || moved <= 0n) return false;
    this.burn(moved);
    if (request.charged === 0n) request.due = Math.max(request.due, finalDue(id, now));
    request.charged += moved;
    this.write(now, { type: 'l', id, amount: moved, key });
    this.expireCredit(now);
    return true;
  }

  isPart({ charged, line = 0n }: Request, amount: bigint): boolean {
    const first = line > this.compactedSeq ? this.lines[Number(line) - 1] : undefined;
    return charged < amount && !first?.writtenOff;
  }

  /** Indexes of the missing witnesses. */
  missing({ witnesses = [] }: Witnessed): number[] {
    return witnesses.flatMap((witness, place) => (this.#has(witness) ? [] : [place]));
  }

  /** Whether one of the witnesses is missing. */
  lacks(command: Witnessed): boolean {
    return this.missing(command).length > 0;
  }

  /** Compacted or deleted ones count as present. */
  #has(witness: Witness): boolean {
    if (witness.type === 'payment') return this.terms.has(witness.id);
    if (witness.type === 'line') {
      const line = this.lines[Number(witness.seq) - 1];
      if (witness.seq <= this.compactedSeq) return true;
      const isOfDueCredits = line?.type === 'x' || (line?.type === 'g' && line.id.startsWith('allowance:'));
      return line?.at === witness.at && (line.id === witness.id || isOfDueCredits);
    }
    const request = this.find(witness.id);
    const costNothing =
      witness.state === 'voided' || (witness.state === 'settled' && witness.isFree === true);
    if (costNothing || (!request && witness.state === 'held')) {
      if (this.mayHaveForgottenFree(witness.id)) return true;
    }
    if (!request) return timeOf(witness.id) <= this.lowWater();
    if (witness.state === 'held') return request.state !== 'held' || request.hold >= witness.hold;
    return request.state === witness.state;
  }

  /** Corrects the tokens of the request to the final number. */
  giveTokens(request: Request, used: number, now: number): void {
    for (const { take } of this.holdersOf(request)) {
      if (used !== request.tokens) take('tokens', used - request.tokens, now);
    }
    request.tokens = used;
  }

  write(at: number, line: Omit<JournalLine, 'seq' | 'at' | 'available'>): void {
    const seq = BigInt(this.lines.length + 1);
    const change = 'ga'.includes(line.type) ? line.amount : -line.amount;
    this.lines.push({ ...line, seq, at, available: this.available() + change });
  }
}

interface At {
  readonly now: number;
  readonly seq: bigint;
  readonly rolledBack?: true;
}

interface Hold {
  readonly requestId: string;
  readonly hold: bigint;
  readonly tokens: number;
  readonly leaseMs: number;
  readonly idempotencyKey: IdempotencyKey | undefined;
  readonly model?: string;
}

interface Request {
  readonly id: string;
  readonly key: string;
  /** When it was admitted, by the latest clock that its holders have seen. */
  readonly at: number;
  readonly counts: Counts;
  idempotencyKey: IdempotencyKey | undefined;
  state: RequestRecord['state'];
  hold: bigint;
  charged: bigint;
  refunded?: bigint;
  /** What was charged before the window of the holder began. */
  readonly uncounted: { [Window in `${LimitHolder} ${BudgetPeriod}`]?: bigint };
  checkpoint: bigint;
  tokens: number;
  due: number;
  /** A day after the id's time, or later. */
  forgotten: false | 'soon' | 'late';
  readonly model: string;
  /** As finally counted. */
  ended: Ended | undefined;
  line: bigint | undefined;
  saidAtVoid: { readonly ending?: Ending | undefined; readonly provider?: string | undefined };
}

interface Ended {
  readonly model: string;
  readonly ending: Ending | undefined;
  readonly usage?: Settle['usage'];
}

interface Lot {
  readonly id: string;
  readonly amount: bigint;
  expiresAt: number | undefined;
  readonly priority: number;
  remaining: bigint;
}

/** Whose limits a request counts against. */
interface Counts {
  readonly key: boolean;
  readonly account: boolean;
  /** `key~end user` */
  readonly user: string | undefined;
}

/** One whose limits a request counts against. */
interface Holder {
  readonly kind: LimitHolder;
  readonly of: Key | User;
  readonly limits: KeyLimits;
  readonly shares?: boolean;
  readonly has: (request: Request) => boolean;
  readonly rate: (
    name: 'requests' | 'tokens',
    now: number,
  ) => { readonly limit: number; readonly level: number } | undefined;
  readonly take: (name: 'requests' | 'tokens', count: number, now: number) => void;
}

interface User {
  /** Empty for one whom the account limits. */
  readonly key: string;
  readonly id: string;
  countedAt: number;
  requests: { readonly level: number; readonly at: number };
  tokens: { readonly level: number; readonly at: number };
}

interface Key {
  readonly id: string;
  readonly createdAt: number;
  name: string;
  limits: KeyLimits;
  endUsers?: EndUserLimits | undefined;
  expiresAt?: number | undefined;
  policy?: string | undefined;
  paused?: boolean | undefined;
  hash: string | undefined;
  previous?: { readonly hash: string; readonly until: number } | undefined;
  revokedAt?: number;
  version: number;
  countedAt: number;
  requests: Takes;
  tokens: Takes;
}

/** Everything taken from a bucket since it was full. */
interface Takes {
  readonly since: number;
  readonly takes: Take[];
}

interface Take {
  readonly at: number;
  readonly count: number;
}

const PERIODS: readonly BudgetPeriod[] = ['lifetime', 'hour', 'day', 'week', 'month'];
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** How long the record of a request that cost nothing is kept. */
const FREE = 10 * MINUTE;

function timeOf(requestId: string): number {
  return Number.parseInt(requestId.slice(0, 9), 36);
}

function dayOf(requestId: string): string {
  return new Date(timeOf(requestId)).toISOString().slice(0, 10);
}

function finalDue(requestId: string, now: number, isFree = false): number {
  return Math.max(now, timeOf(requestId)) + (isFree ? FREE : DAY);
}

function blank(id: string, now: number): Request {
  return {
    id,
    key: '',
    at: 0,
    counts: { key: false, account: false, user: undefined },
    idempotencyKey: undefined,
    state: 'voided',
    hold: 0n,
    charged: 0n,
    uncounted: {},
    checkpoint: 0n,
    tokens: 0,
    due: finalDue(id, now),
    forgotten: false,
    model: '',
    ended: undefined,
    line: undefined,
    saidAtVoid: {},
  } as const;
}

function newKey(id: string, hash: string | undefined, terms: KeyTerms, createdAt: number): Key {
  return {
    id,
    createdAt,
    ...filled(terms),
    hash,
    version: 1,
    countedAt: createdAt,
    requests: { since: createdAt, takes: [] },
    tokens: { since: createdAt, takes: [] },
  };
}

function termsOf({ name, limits, endUsers, expiresAt, policy, paused }: Key): ReturnType<typeof filled> {
  return { name, limits, endUsers, expiresAt, policy, paused };
}

function filled({
  name,
  limits = {},
  endUsers,
  expiresAt,
  policy,
  paused = false,
}: KeyTerms): Pick<Key, 'name' | 'limits' | 'endUsers' | 'expiresAt' | 'policy' | 'paused'> {
  return { name, limits, endUsers, expiresAt, policy, paused };
}

function netCharge({ charged, refunded = 0n }: Request): bigint {
  return charged - refunded;
}

function windowOf(per: BudgetPeriod, now: number): number {
  const date = new Date(now);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  if (per === 'hour') return Date.UTC(year, month, day, date.getUTCHours());
  if (per === 'day') return Date.UTC(year, month, day);
  if (per === 'week') return Date.UTC(year, month, day - ((date.getUTCDay() + 6) % 7));
  if (per === 'month') return Date.UTC(year, month, 1);
  return 0;
}

/** Windows are at most 31 days long: the first moment of the next one. */
function nextWindow(per: BudgetPeriod, at: number): number | undefined {
  const hours = Array.from({ length: 32 * 24 }, (_, n) => Math.floor(at / HOUR) * HOUR + n * HOUR);
  return hours.find((hour) => windowOf(per, hour) > windowOf(per, at));
}

/** Sets the clock of all holders to the latest of them that the clock wasn't set back from; returns it. */
function enter(account: Account, holders: readonly Holder[], now: number): number {
  const at = Math.max(now, ...holders.map(({ of }) => countingTime(of.countedAt, now)));
  for (const holder of holders) {
    const { of } = holder;
    account.begin(
      holder,
      PERIODS.filter((per) => windowOf(per, of.countedAt) !== windowOf(per, at)),
    );
    of.countedAt = at;
  }
  return at;
}

function between(least: bigint, value: bigint, most: bigint): bigint {
  const atMost = value < most ? value : most;
  return atMost > least ? atMost : least;
}

/** Of what a clock has shown until now, only a minute is believed to be later than now. */
function countingTime(seen: number, now: number): number {
  return seen > now + MINUTE ? now : Math.max(seen, now);
}

function countsIn(holders: readonly Holder[]): Counts {
  const kinds = holders.map(({ kind }) => kind);
  const user = holders.find(({ kind }) => kind === 'end_user')?.of as User | undefined;
  return {
    key: kinds.includes('key'),
    account: kinds.includes('account'),
    user: user && `${user.key}~${user.id}`,
  };
}

function shares(holders: readonly Holder[]): { sharesEndUser?: true } {
  return holders.some((holder) => holder.shares) ? { sharesEndUser: true } : {};
}

/** The level of an end user's bucket, whose limit may have changed since. */
function userLevel({ level, at }: User['requests'], limit: number, now: number): number {
  if (at > now + MINUTE) return limit * MINUTE;
  const elapsed = Math.min(Math.max(0, now - at), 61 * MINUTE);
  return Math.min(limit * MINUTE, level + elapsed * limit);
}

/** The level of the bucket, replayed from when it was full. */
function bucket(limit: number, { since, takes }: Takes): { level: number; at: number } {
  const full = BigInt(limit) * 60_000n;
  let [level, at] = [full, since];
  for (const take of takes) {
    level = refilled(level, at, limit, take.at) - BigInt(take.count) * 60_000n;
    if (level > full) level = full;
    if (level < -60n * full) level = -60n * full;
    at = countingTime(at, take.at);
  }
  return { level: Number(level), at };
}

function refilled(level: bigint, at: number, limit: number, now: number): bigint {
  const full = BigInt(limit) * 60_000n;
  if (at > now + MINUTE) return full;
  const more = now > at ? BigInt(now - at) * BigInt(limit) : 0n;
  return level + more > full ? full : level + more;
}

function levelOf(limit: number, takes: Takes, now: number): { level: number } {
  const { level, at } = bucket(limit, takes);
  return { level: Number(refilled(BigInt(level), at, limit, now)) };
}

function waitIn(
  { kind, rate }: Holder,
  code: 'requests_per_minute' | 'tokens_per_minute',
  count: number,
  now: number,
): Extract<ExceededLimit, { retryAfterMs: number }> {
  const { limit, level } = rate(code === 'requests_per_minute' ? 'requests' : 'tokens', now) ?? {
    limit: Infinity,
    level: Infinity,
  };
  const missing = level === Infinity ? 0 : Math.min(count, limit) * MINUTE - level;
  return { code, limitedBy: kind, limit, retryAfterMs: Math.max(0, Math.ceil(missing / limit)) };
}

function ratesIn(holders: readonly Holder[], now: number): { rates?: KeyRates } {
  const tightest = (name: 'requests' | 'tokens'): KeyRate | undefined =>
    holders
      .flatMap((holder) => holder.rate(name, now) ?? [])
      .map(rateOf)
      .toSorted((a, b) => a.remaining - b.remaining)[0];
  const [requests, tokens] = [tightest('requests'), tightest('tokens')];
  return requests || tokens ? { rates: { ...(requests && { requests }), ...(tokens && { tokens }) } } : {};
}

function rateOf({ limit, level }: { readonly limit: number; readonly level: number }): KeyRate {
  // A limit of n per minute refills one unit per n-th of a minute.
  return {
    limit,
    remaining: level > 0 ? Math.floor(level / MINUTE) : 0,
    resetMs: Math.max(0, Math.ceil((limit * MINUTE - level) / limit)),
  };
}

function keyRecord(account: string, key: Key): KeyRecord {
  const { id, name, createdAt, revokedAt, expiresAt, limits, endUsers, policy, version, previous } = key;
  const state = key.paused ? 'paused' : 'active';
  return {
    account,
    key: id,
    name,
    state: revokedAt === undefined ? state : 'revoked',
    createdAt,
    ...(revokedAt !== undefined && { revokedAt }),
    ...(expiresAt !== undefined && { expiresAt }),
    limits,
    ...(endUsers && { endUsers }),
    ...(policy !== undefined && { policy }),
    version,
    ...(previous && { overlapUntil: previous.until }),
  };
}

function countersStatus(owner: Account, holder: Holder, now: number): CountersStatus {
  const at = countingTime(holder.of.countedAt, now);
  return {
    now,
    held: total(owner.running(holder.has).map((request) => request.hold)),
    running: owner.running(holder.has).length,
    spent: owner.charged(holder),
    budgets: (holder.limits.budgets ?? []).map((budget) => {
      const { left } = owner.room([{ ...holder, limits: { budgets: [budget] } }], now)!;
      const next = nextWindow(budget.per, at);
      return {
        ...budget,
        spent: owner.charged(holder, budget.per, at),
        left: left < 0n ? 0n : left,
        ...(next !== undefined && { resetsAt: next }),
      };
    }),
    ...ratesIn([holder], now),
  };
}

function counters(owner: Account, holder: Holder): Counters {
  const { countedAt } = holder.of;
  const running = owner.running(holder.has);
  const within = (per: BudgetPeriod): bigint => owner.charged(holder, per, countedAt);
  return {
    held: total(running.map((request) => request.hold)),
    running: running.length,
    spent: owner.charged(holder),
    countedAt,
    spentIn: { hour: within('hour'), day: within('day'), week: within('week'), month: within('month') },
  };
}

/** For the order of end users. */
export function endUserId({ key = '', endUser }: Pick<EndUserState, 'key' | 'endUser'>): string {
  return `${key}~${endUser}`;
}

function keyState(account: string, owner: Account, holder: Holder, key: Key): KeyState {
  const { requestsPerMinute, tokensPerMinute } = key.limits;
  return {
    ...keyRecord(account, key),
    ...counters(owner, holder),
    ...(requestsPerMinute && { requestBucket: bucket(requestsPerMinute, key.requests) }),
    ...(tokensPerMinute && { tokenBucket: bucket(tokensPerMinute, key.tokens) }),
  };
}

function recordOf({
  id,
  state,
  key,
  counts,
  checkpoint,
  due,
  hold,
  charged,
  idempotencyKey,
  model,
  ended,
  line,
  saidAtVoid: { ending, provider },
}: Request): RequestRecord {
  const amount = state === 'held' ? hold : charged;
  const lastModel = ended?.model ?? model;
  return {
    id,
    state,
    amount,
    key,
    ...(counts.account && { inAccount: true }),
    ...(counts.user !== undefined && { endUser: userOf(counts.user) }),
    checkpoint,
    due,
    ...(idempotencyKey && { idempotencyKey }),
    ...(lastModel && { model: lastModel }),
    ...(line && { line }),
    ...(ending && { ending }),
    ...(provider && { provider }),
  };
}

function userOf(id: string): Pick<EndUserState, 'key' | 'endUser'> {
  const [key = '', ...endUser] = id.split('~');
  return { ...(key !== '' && { key }), endUser: endUser.join('~') };
}

const NO_COUNTS = {
  requests: 0,
  errors: 0,
  aborted: 0,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  charged: 0n,
  cost: 0n,
};

function usageOf(
  { id, key, charged }: Pick<Request, 'id' | 'key' | 'charged'>,
  { model, ending, usage }: Ended,
): UsageRow {
  const day = dayOf(id);
  const isWell = usage !== undefined && ending === 'finished' && usage.finishReason !== 'error';
  const hasLeft = ending === 'client_gone';
  return {
    day,
    key,
    model,
    requests: 1,
    errors: isWell || hasLeft ? 0 : 1,
    aborted: hasLeft ? 1 : 0,
    promptTokens: usage?.promptTokens ?? 0,
    cachedTokens: usage?.cachedTokens ?? 0,
    completionTokens: usage?.completionTokens ?? 0,
    reasoningTokens: usage?.reasoningTokens ?? 0,
    charged,
    cost: usage?.cost ?? 0n,
  };
}

function pickCounts(counts: UsageCounts): UsageCounts {
  return summed(NO_COUNTS, counts, 1);
}

function summed<Row extends UsageCounts>(row: Row, more: UsageCounts, sign: 1 | -1): Row {
  return {
    ...row,
    requests: row.requests + sign * more.requests,
    errors: row.errors + sign * more.errors,
    aborted: row.aborted + sign * more.aborted,
    promptTokens: row.promptTokens + sign * more.promptTokens,
    cachedTokens: row.cachedTokens + sign * more.cachedTokens,
    completionTokens: row.completionTokens + sign * more.completionTokens,
    reasoningTokens: row.reasoningTokens + sign * more.reasoningTokens,
    charged: row.charged + BigInt(sign) * more.charged,
    cost: row.cost + BigInt(sign) * more.cost,
  };
}

/** A request that expired under one model and was settled under another leaves a row of zeros. */
export function countsSomething(row: UsageCounts): boolean {
  return Object.values(row).some((value) => typeof value !== 'string' && Number(value) !== 0);
}

function byFirst([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

function amounts(lines: readonly JournalLine[], types: string): bigint[] {
  return lines.filter((line) => types.includes(line.type)).map((line) => line.amount);
}

function total(values: readonly bigint[]): bigint {
  return values.reduce((sum, value) => sum + value, 0n);
}
