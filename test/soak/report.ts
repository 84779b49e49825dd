import type { JournalLine } from '../../src/index.ts';
import type { Try } from './client.ts';
import type { Evidence, RequestEvidence } from './evidence.ts';
import type { Verdict } from './verdict.ts';

/** One row of the table. */
export type Row = Readonly<Record<string, string | number>>;

export function rowOf(name: string, evidence: Evidence, verdict: Verdict): Row {
  const { tries, attempts, timeline, books } = evidence;
  const { charges, changes, availability, repeated, excesses } = verdict;
  const all = [...charges, ...changes];
  const count = (wanted: string): number => all.filter((each) => each.verdict === wanted).length;
  const { recovery } = availability;
  const seconds = (ms: number): string => (ms / 1000).toFixed(2);
  const over = (limit: string): number => excesses.filter((excess) => excess.limit === limit).length;
  return {
    scenario: name,
    requests: tries.length,
    'at provider': attempts.size,
    faults: timeline.faults.length,
    wrong: count('wrong') + verdict.books.length,
    unsent: count('unsent'),
    lost: count('lost'),
    double: count('double'),
    'keys twice': repeated.filter(({ isInWindow }) => !isInWindow).length,
    'in window': windowCell(verdict),
    stuck: books.stuck.length,
    'budgets over': over('budget'),
    'rates over': over('requests per minute'),
    'concurrency over': over('concurrent requests'),
    documented: count('documented'),
    told: count('told'),
    'served empty': availability.servedWhileEmpty,
    '503 %': (availability.share * 100).toFixed(2),
    '503 calm': availability.refusedInCalm,
    'recovery p50/p99/max s': [recovery.p50, recovery.p99, recovery.max].map(seconds).join(' / '),
    dead: availability.neverRecovered.length,
    remembered: books.rememberedRequests,
    MB: Math.max(0, ...evidence.mostMegabytes),
  };
}

/** How many, and how long after a rollback the last of them came. */
function windowCell({ repeated }: Verdict): string | number {
  const inWindow = repeated.filter(({ isInWindow }) => isInWindow);
  const longest = Math.max(...inWindow.map(({ sinceRollbackMs = 0 }) => sinceRollbackMs));
  return inWindow.length === 0 ? 0 : `${inWindow.length} (${(longest / 1000).toFixed(1)} s)`;
}

export function tableOf(rows: readonly Row[]): string {
  const names = Object.keys(rows[0] ?? {});
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [
    line(names),
    line(names.map(() => '---')),
    ...rows.map((row) => line(names.map((name) => String(row[name] ?? '')))),
  ].join('\n');
}

const AROUND_MS = 90_000;
const MAX_DETAILS = 100;

/** All that helps to understand what is wrong, for a file of JSON. */
export function detailsOf(evidence: Evidence, verdict: Verdict): object {
  const { charges, changes, repeated, ...rest } = verdict;
  return {
    ...rest,
    stuck: evidence.books.stuck,
    mostMegabytes: evidence.mostMegabytes,
    timeline: evidence.timeline,
    runs: evidence.runs.map(({ settled, events, errors, ...run }) => ({
      ...run,
      settled: settled.size,
      events: countsOf(events.map(({ event }) => event.type)),
      errors: countsOf(errors.map(({ message }) => message)),
    })),
    charges: charges.slice(0, MAX_DETAILS).map(({ request, ...judged }) => ({
      ...judged,
      ...requestDetails(request, evidence),
    })),
    changes: changes.slice(0, MAX_DETAILS),
    repeated: repeated.slice(0, MAX_DETAILS).map(({ requests, ...judged }) => ({
      ...judged,
      requests: requests.map((request) => requestDetails(request, evidence)),
    })),
  };
}

function requestDetails({ tried, attempts, ...request }: RequestEvidence, evidence: Evidence): object {
  const at = tried?.sentAt ?? attempts[0]?.receivedAt ?? request.lines[0]?.at ?? 0;
  const isNear = (time: number): boolean => Math.abs(time - at) < AROUND_MS;
  return {
    ...request,
    tried: tried && tryDetails(tried),
    attempts,
    settled: evidence.runs.flatMap(({ name, settled }) => {
      const line = settled.get(request.id);
      return line ? [{ run: name, ...line }] : [];
    }),
    events: evidence.runs.flatMap(({ name, events }) =>
      events
        .filter(({ at, event }) => isNear(at) && 'account' in event && event.account === request.account)
        .map((told) => ({ run: name, ...told })),
    ),
    neighbours: neighbours(request, evidence),
    faults: evidence.timeline.faults.filter(
      ({ startedAt, healedAt }) => isNear(startedAt) || isNear(healedAt),
    ),
  };
}

function tryDetails({ plan, run, ...tried }: Try): object {
  const { n, stream, answer, departure, idempotencyKey, payer } = plan;
  const { pieces, ...answered } = answer;
  return {
    ...tried,
    run: run?.name,
    plan: {
      n,
      stream,
      departure,
      idempotencyKey,
      key: payer.keyId,
      answer: { ...answered, pieces: pieces.length },
    },
  };
}

/** Journal lines around those of the request. */
function neighbours(
  { account, lines }: Pick<RequestEvidence, 'account' | 'lines'>,
  { books }: Evidence,
): readonly JournalLine[] {
  const first = lines[0];
  const journal = books.accounts.find(({ name }) => name === account)?.lines ?? [];
  const at = first ? journal.findIndex(({ seq }) => seq === first.seq) : -1;
  return at < 0 ? [] : journal.slice(Math.max(0, at - 5), at + 6);
}

function countsOf(names: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

/** As `JSON.stringify` wants it. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(
    value,
    (_, each: unknown) => (typeof each === 'bigint' ? String(each) : each === Infinity ? null : each),
    2,
  );
}
