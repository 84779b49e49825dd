import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import type { Verification } from '../../../client/admin-api.generated.ts';
import { type Api, asApiError } from '../../../page/api.ts';
import { grouped, plural } from '../../../page/format.ts';
import { hrefOf } from '../../../page/route.ts';
import { Column, EmptyRow, Table } from '../../../page/table.tsx';

type Finding = Verification['findings'][number];

interface Audit {
  readonly state: 'running' | 'stopped' | 'done';
  readonly accounts: number;
  readonly lines: number;
  readonly findings: readonly Finding[];
  /** Number of findings, also of those that are not shown. */
  readonly found: number;
  readonly cursor: string | undefined;
  readonly failure: string | undefined;
}

const NOTHING: Audit = {
  state: 'running',
  accounts: 0,
  lines: 0,
  findings: [],
  found: 0,
  cursor: undefined,
  failure: undefined,
};
const MAX_SHOWN = 200;

/** Of `verifyLedger`. */
const INVARIANTS: Readonly<Record<Finding['invariant'], string>> = {
  I1: 'totals',
  I2: 'holds',
  I3: 'posted once',
  I4: 'overspent',
  I5: 'overrun',
  I6: 'journal',
  I7: 'usage',
};

/** Verifies all accounts, page after page, while it is shown. */
export function AuditCard({ api }: { readonly api: Api }): JSX.Element {
  const [audit, setAudit] = useState<Audit>();
  /** Each start and stop is another one, so that an answer to an earlier one is dropped. */
  const turn = useRef(0);
  useEffect(
    () => () => {
      turn.current += 1;
    },
    [],
  );

  async function run(from: Audit): Promise<void> {
    const mine = (turn.current += 1);
    let at: Audit = { ...from, state: 'running', failure: undefined };
    while (at.state === 'running') {
      setAudit(at);
      at = await nextPage(api, at);
      if (turn.current !== mine) return;
    }
    setAudit(at);
  }

  function stop(): void {
    turn.current += 1;
    setAudit(audit && { ...audit, state: 'stopped' });
  }

  return (
    <section class="card" aria-labelledby="audit-title">
      <div class="title">
        <h2 id="audit-title">Audit</h2>
        <div class="controls">
          {audit?.state === 'running' && (
            <button type="button" class="plain" onClick={stop}>
              Stop
            </button>
          )}
          {audit?.state === 'stopped' && (
            <button type="button" class="plain" onClick={() => void run(audit)}>
              Go on
            </button>
          )}
          {audit?.state !== 'running' && (
            <button type="button" id="audit" class="primary small" onClick={() => void run(NOTHING)}>
              Verify all accounts
            </button>
          )}
        </div>
      </div>
      <p id="audit-progress" class="faint" role="status">
        {audit ? progressOf(audit) : 'Recomputes each balance from its journal. It reads all journals.'}
      </p>
      {audit?.failure !== undefined && <p class="notice bad">{audit.failure}</p>}
      {audit && audit.found > 0 && <Findings audit={audit} />}
    </section>
  );
}

async function nextPage(api: Api, audit: Audit): Promise<Audit> {
  try {
    const page = await api.get<Verification>('verification', {
      ...(audit.cursor !== undefined && { cursor: audit.cursor }),
    });
    return {
      ...audit,
      state: page.next_cursor === null ? 'done' : 'running',
      accounts: audit.accounts + page.accounts,
      lines: audit.lines + page.lines,
      findings: [...audit.findings, ...page.findings].slice(0, MAX_SHOWN),
      found: audit.found + page.findings.length,
      cursor: page.next_cursor ?? undefined,
    };
  } catch (thrown) {
    return { ...audit, state: 'stopped', failure: asApiError(thrown).message };
  }
}

function progressOf({ state, accounts, lines, found }: Audit): string {
  const read = `${plural(accounts, 'account')}, ${grouped(lines)} journal entries`;
  const outcome = found === 0 ? 'no problems found' : plural(found, 'finding');
  return `${{ running: 'Verifying: ', stopped: 'Stopped: ', done: 'Verified: ' }[state]}${read}, ${outcome}.`;
}

function Findings({ audit: { findings, found } }: { readonly audit: Audit }): JSX.Element {
  const head = (
    <>
      <Column>Account</Column>
      <Column class="wide">What</Column>
      <Column>Finding</Column>
    </>
  );
  return (
    <Table id="finding-rows" head={head}>
      {findings.map(({ account, invariant, message }, n) => (
        <tr key={n}>
          <th scope="row">
            <a href={hrefOf('accounts', account)}>{account}</a>
          </th>
          <td class="wide">
            {INVARIANTS[invariant]}
            <small>{invariant}</small>
          </td>
          <td class="wrap">{message}</td>
        </tr>
      ))}
      {found > findings.length && (
        <EmptyRow columns={3}>{`and ${grouped(found - findings.length)} more`}</EmptyRow>
      )}
    </Table>
  );
}
