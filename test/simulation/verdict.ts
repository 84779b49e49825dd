import { CreditStoreUnavailableError } from '../../src/errors/credit-errors.ts';
import { allowanceLotId } from '../../src/ledger/contract/allowances.ts';
import { UNPAID_MS } from '../../src/ledger/reliability/unpaid-charges.ts';
import { verifyLedger } from '../../src/ledger/operations/verify.ts';
import type { AccountState, JournalLine } from '../../src/ledger/contract/ledger-store.ts';
import { wrongJournal, wrongState } from './invariants.ts';
import { allowanceOf, openingOf } from './operator.ts';
import { checkpointAtMost, type RequestTruth } from './truth.ts';
import type { World } from './world.ts';

/** What a power failure may lose of an outbox: 50 ms, and the running write of a slow disk. */
const UNSYNCED_MS = 200;

/** An account at the end of the run. */
interface Account {
  readonly id: string;
  readonly state: AccountState;
  readonly lines: readonly JournalLine[];
}

/** The first violation in a healed world: something expected is missing, or something else happened. */
export async function wrongEnd(world: World): Promise<string | undefined> {
  const { server, truth, swarm } = world;
  const twin = await server.twin();
  for (const { id } of swarm.accounts) {
    const state = await server.inside.snapshot(id);
    if (!state) return `account ${id} is gone`;
    const account = { id, state, lines: await server.inside.journal(id, 0n, Infinity) };
    const wrong =
      wrongState(state) ??
      wrongJournal(state, account.lines) ??
      stillHeld(world, account) ??
      wrongCharges(world, account) ??
      wrongOperations(world, account) ??
      wrongAllowance(world, account) ??
      wrongSanctions(world, account) ??
      (textOf(state) === textOf(await twin.snapshot(id))
        ? undefined
        : 'I12: the same commands make another state');
    if (wrong !== undefined) return `${id}: ${wrong}`;
  }
  for (const { id, state, gateway } of truth.requests.values()) {
    if ((state === 'asked' || state === 'running') && !gateway.died)
      return `I7: request ${id} is still ${state}`;
  }
  for await (const { account, findings } of verifyLedger(server.inside)) {
    const [finding] = findings;
    if (finding) return `${account}: the audit finds ${finding.invariant}: ${finding.message}`;
  }
  return world.rollbacks.unnoticed();
}

/** I7: a request that a live gateway refused or ended holds nothing, though the lease may run on. */
export async function heldForNobody({ server, truth, swarm }: World): Promise<string | undefined> {
  for (const { id: account } of swarm.accounts) {
    const state = await server.inside.snapshot(account);
    for (const { id, state: is, amount } of state?.requests ?? []) {
      const request = truth.requests.get(id);
      if (is !== 'held' || !request || request.gateway.died || request.isDeadLetter || request.isForgiven)
        continue;
      // A copy of its admit arrived after a limit had refused the first one: its lease will end it.
      const mayHaveBeenRefused = !(request.refusal instanceof CreditStoreUnavailableError);
      if (request.state === 'refused' && mayHaveBeenRefused && request.admits > 1) continue;
      return `I7: request ${id}, ${request.state}, holds ${amount} for nobody`;
    }
  }
  return undefined;
}

/** I7: nothing runs, so nothing is held. */
function stillHeld(world: World, { state }: Account): string | undefined {
  const open = state.requests.find(({ state: is }) => is === 'held');
  if (open) return `I7: request ${open.id} still holds ${open.amount}`;
  if (state.held !== 0n) return `I7: ${state.held} are still held`;
  if (state.frozen && world.swarm.sanctions === 0) return 'I1: it was frozen by a failed check of its books';
  return undefined;
}

/** The journal entries of a request. */
interface Posted {
  charged: bigint;
  writtenOff: bigint;
}

/** Each request is charged its cost, once; less only if every process that knew it died. */
function wrongCharges(world: World, { id: account, lines }: Account): string | undefined {
  const posted = new Map<string, Posted>();
  for (const { type, id, amount, writtenOff = 0n } of lines) {
    if (type === 'g' || type === 'a' || type === 'x') continue;
    const before = posted.get(id) ?? NOTHING;
    posted.set(id, { charged: before.charged + amount, writtenOff: before.writtenOff + writtenOff });
  }
  for (const request of world.truth.requests.values()) {
    if (request.account !== account) continue;
    const wrong = wrongCharge(world, request, posted.get(request.id) ?? NOTHING);
    if (wrong !== undefined) return wrong;
  }
  for (const [id, { charged }] of posted) {
    if (!world.truth.requests.has(id)) return `${id} was charged ${charged}, and nobody asked for it`;
  }
  return chargedTwice(world, account, posted);
}

const NOTHING: Posted = { charged: 0n, writtenOff: 0n };

function wrongCharge(world: World, request: RequestTruth, posted: Posted): string | undefined {
  const { id, state, intent, gateway } = request;
  const about = `request ${id} of ${gateway.name}, ${state},`;
  const sum = posted.charged + posted.writtenOff;
  if (state === 'asked' || state === 'refused') {
    return sum === 0n ? undefined : `${about} was charged ${sum}, and got nothing`;
  }
  const checkpoint = checkpointAtMost(request, world.isTruthful);
  const exact = state === 'running' || intent === 'void' ? 0n : (intent ?? 0n);
  if (state === 'ended' && isExact(world, request, posted, exact)) return undefined;
  if (state === 'ended' && !mayBeLost(world, request)) {
    const { writtenOff, refused } = request.told;
    return `${about} was charged ${posted.charged} instead of ${exact}; ${posted.writtenOff} are written off, ${writtenOff} told as that, ${refused} as refused`;
  }
  return sum <= checkpoint
    ? undefined
    : `${about} was charged ${sum} instead of ${exact} or a checkpoint of ${checkpoint} at most`;
}

/** Charged in full, or the rest was reported to operators. */
function isExact(
  { events }: World,
  { account, gateway, endedAt, lostBy, told }: RequestTruth,
  { charged, writtenOff }: Posted,
  exact: bigint,
): boolean {
  const rest = exact - charged;
  const isRepaired = events.some(
    ({ by, event, at }) =>
      by === gateway &&
      (event.type === 'rollback' || event.type === 'rollback_repaired') &&
      event.account === account &&
      endedAt - at < UNPAID_MS,
  );
  // The totals of a rolled back account lack earlier write-offs, and what a repair gave up: of what it lost, and of what ended then.
  if (lostBy.size > 0 || (isRepaired && writtenOff === 0n))
    return rest === 0n || (rest === told.writtenOff && told.refused <= rest);
  return rest === writtenOff;
}

/** Of the requests with one idempotency key one is charged; more only if the duplicate couldn't be detected. */
function chargedTwice(
  { truth, storeClockStepped }: World,
  account: string,
  posted: ReadonlyMap<string, Posted>,
): string | undefined {
  if (storeClockStepped) return undefined;
  const seen = new Map<string, { readonly charged: string[]; excused: number }>();
  for (const request of truth.requests.values()) {
    const { id, account: of, key, idempotencyKey, admission, isForgiven, isSucceeded } = request;
    if (of !== account || !idempotencyKey || isForgiven) continue;
    const name = `${key} ${idempotencyKey.key}`;
    const twins = seen.get(name) ?? { charged: [], excused: 0 };
    seen.set(name, twins);
    if ((posted.get(id)?.charged ?? 0n) > 0n) twins.charged.push(id);
    if (admission?.isExcused || isSucceeded) twins.excused += 1;
  }
  for (const { charged, excused } of seen.values()) {
    if (charged.length > 1 + excused) return `${charged.join(' and ')} were charged, of one idempotency key`;
  }
  return undefined;
}

/** Whether no live process knew what to post for a request. */
function mayBeLost(
  world: World,
  { gateway, endedAt, isAcknowledged, isDeadLetter, isForgiven, lostBy }: RequestTruth,
): boolean {
  if (isDeadLetter || isForgiven || [...lostBy].some(({ died }) => died)) return true;
  const { died, hasOutbox } = gateway;
  if (!died || isAcknowledged) return false;
  if (!hasOutbox || world.swarm.faults.has('full disk')) return true;
  // The disk of a killed process may lose power later.
  const mayHaveLostPower = died.how === 'power cut' || world.swarm.faults.has('power cut');
  return mayHaveLostPower && died.at - endedAt < UNSYNCED_MS;
}

/** An acknowledged grant, adjustment or key is present, once. */
function wrongOperations({ truth }: World, { id: account, lines, state }: Account): string | undefined {
  const times = new Map(state.keys.map(({ key }) => [key, 1]));
  for (const { type, id } of lines) {
    if (type !== 'g' && type !== 'a') continue;
    times.set(id, (times.get(id) ?? 0) + 1);
    if (!truth.operations.has(id) && id !== openingOf(account) && !id.startsWith('allowance:hourly:'))
      return `I8: ${id} was applied, and nobody asked for it`;
  }
  for (const {
    id,
    account: of,
    isAcknowledged,
    isDurable,
    by,
    lostBy,
    isForgiven,
  } of truth.operations.values()) {
    const applied = times.get(id) ?? 0;
    if (of !== account || (isAcknowledged && applied === 1)) continue;
    if (applied > 1) return `I8: ${id} was applied ${applied} times`;
    if (isDurable) return `${id} was acknowledged as durable, and is gone`;
    if (isAcknowledged && !isForgiven && ![...lostBy].some(({ died }) => died)) {
      return `${id} was acknowledged by ${by?.name}, which lives or had no reason to forget it, and is gone`;
    }
  }
  return undefined;
}

/** The allowance is there, and its latest period was granted; that none was granted twice follows from the journal. */
function wrongAllowance({ swarm, server }: World, { id, state, lines }: Account): string | undefined {
  const allowed = allowanceOf(id, swarm.startsAt);
  if (!allowed) return undefined;
  const [allowance] = state.allowances;
  if (!allowance) return 'I8: its allowance is gone';
  const { periodStart: start, resetsAt, granted } = allowance;
  if (resetsAt <= server.now - SWEPT_WITHIN_MS)
    return `I8: its allowance ended at ${resetsAt}, and was not renewed`;
  const lot = allowanceLotId(allowance.id, start);
  const grants = lines.filter((line) => line.id === lot && line.type === 'g');
  const amount = grants.reduce((total, line) => total + line.amount, 0n);
  if (amount < granted || amount % granted !== 0n) return `I8: ${lot} was granted ${amount} of ${granted}`;
  return undefined;
}

/** Gateways sweep more often than that. */
const SWEPT_WITHIN_MS = 60_000;

/** Acknowledged freezes and revocations are in effect, if the gateway that acknowledged them lives. */
function wrongSanctions({ truth }: World, { id, state }: Account): string | undefined {
  const freeze = truth.sanctions.get(id);
  // A repeated freeze may undo another process's unfreeze, which is harmless.
  if (freeze?.frozen && !freeze.by.died && !state.frozen) return 'it was frozen, and is not';
  for (const { key, state: is } of state.keys) {
    const revocation = truth.sanctions.get(`${id} ${key}`);
    if (revocation && !revocation.by.died && is !== 'revoked') return `key ${key} was revoked, and is active`;
  }
  return undefined;
}

function textOf(state: unknown): string {
  return JSON.stringify(state, (_key, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
}
