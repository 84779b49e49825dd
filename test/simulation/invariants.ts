import type {
  AccountState,
  Admit,
  AdmitResult,
  JournalLine,
} from '../../src/ledger/contract/ledger-store.ts';

/** The violated invariant of an account (I1, I2, I4, I8, I11, the floor); undefined if none. */
export function wrongState(state: AccountState): string | undefined {
  const { granted, available, held, spent, expired, floor } = state;
  if (granted !== available + held + spent + expired) {
    return `I1: granted ${granted} is not available ${available} + held ${held} + spent ${spent} + expired ${expired}`;
  }
  if (available < floor) return `I4: available ${available} is below the floor ${floor}`;

  const heldByKey = new Map<string, { held: bigint; running: number }>();
  let sum = 0n;
  for (const { id, state: is, amount, key, checkpoint } of state.requests) {
    if (amount < 0n) return `request ${id} has an amount of ${amount}`;
    if (is !== 'held') continue;
    if (checkpoint > amount) return `request ${id} has a checkpoint of ${checkpoint} in a hold of ${amount}`;
    sum += amount;
    const ofKey = heldByKey.get(key) ?? { held: 0n, running: 0 };
    heldByKey.set(key, { held: ofKey.held + amount, running: ofKey.running + 1 });
  }
  if (sum !== held) return `I2: held is ${held}, the holds sum up to ${sum}`;
  for (const { key, held, running } of state.keys) {
    const found = heldByKey.get(key) ?? { held: 0n, running: 0 };
    if (held !== found.held || running !== found.running) {
      return `I2: key ${key} has ${running} requests holding ${held}, found ${found.running} holding ${found.held}`;
    }
  }

  let lots = 0n;
  for (const { id, remaining, amount } of state.lots) {
    if (remaining <= 0n || remaining > amount) return `I11: lot ${id} has ${remaining} of ${amount} left`;
    lots += remaining;
  }
  if (lots > available + held) return `I11: lots have ${lots}, but there is only ${available + held}`;
  return undefined;
}

/** The violated invariant of an account's journal (I3, I5, I6, I8); undefined if none. */
export function wrongJournal(state: AccountState, lines: readonly JournalLine[]): string | undefined {
  const { compacted } = state;
  const sums = { ...compacted };
  const outcomes = new Map<string, string>();
  let { seq } = compacted;
  for (const line of lines) {
    const { type, id, amount, available, hold = 0n, writtenOff = 0n } = line;
    if (line.seq !== seq + 1n) return `I6: line ${line.seq} follows line ${seq}`;
    seq = line.seq;
    if (available < state.floor) return `I4: available was ${available} after line ${seq}`;
    const before = outcomes.get(id) ?? '';
    outcomes.set(id, before + type);
    if (!OUTCOMES.test(before + type)) return `I3: ${id} has journal lines of the types ${before + type}`;
    if (type === 's' && writtenOff > 0n && amount + writtenOff <= hold) {
      return `I5: ${writtenOff} of ${id} were written off, which had held ${hold}`;
    }
    if (type === 'e' && amount > hold) return `I5: the expiry of ${id} charged ${amount} of ${hold} held`;
    if (type === 'g' || type === 'a') sums.granted += amount;
    else if (type === 'x') sums.expired += amount;
    else sums.spent += amount;
    sums.writtenOff += writtenOff;
  }
  if (seq !== state.seq) return `I6: the journal ends at ${seq}, the account is at ${state.seq}`;
  for (const name of ['granted', 'spent', 'expired', 'writtenOff'] as const) {
    if (sums[name] !== state[name]) return `I6: ${name} is ${state[name]}, the journal says ${sums[name]}`;
  }
  return undefined;
}

/** The valid lines of one id: a grant; an adjustment; expiries of a grant; a lease expiry, then at most one late end; a settle. */
const OUTCOMES = /^(gx*|a|sl*|ol*|el*)$/;

/** The violated invariant of an admission (I9, I10); undefined if none. */
export function wrongAdmit(
  command: Admit,
  { hold, now }: Extract<AdmitResult, { code: 'ok' }>,
  state: AccountState | undefined,
): string | undefined {
  const { requestId, want, min, notAfter, restore = false, externalKey = false } = command;
  if (now > notAfter) return `I10: ${requestId} was admitted at ${now}, its caller waited until ${notAfter}`;
  if (hold > want) return `${requestId} wanted ${want} and holds ${hold}`;
  if (restore) return undefined;
  if (hold < min) return `${requestId} wanted at least ${min} and holds ${hold}`;
  if (!state) return `${requestId} was admitted to an account that isn't there`;
  const record = state.requests.find(({ id }) => id === requestId);
  if (record?.state !== 'held' || record.amount !== hold)
    return `${requestId} was admitted, and holds nothing`;
  if (state.frozen) return `${requestId} was admitted to a frozen account`;
  const key = state.keys.find((each) => each.key === command.key);
  if (!key) return `${requestId} was admitted without a key`;
  if (!externalKey && key.state === 'revoked') return `${requestId} was admitted with a revoked key`;
  const { budgets = [], concurrentRequests = Infinity } = key.limits;
  for (const { amount, per } of budgets) {
    const spent = per === 'lifetime' ? key.spent : key.spentIn[per];
    if (spent + key.held <= amount) continue;
    return `I9: key ${key.key} has spent ${spent} and holds ${key.held}, of a budget of ${amount}`;
  }
  if (key.running > concurrentRequests) return `key ${key.key} has ${key.running} requests at once`;
  return wrongState(state);
}
