import type { JSX } from 'preact';

import type { TargetRow } from '../api-rows.ts';
import { grouped, duration } from '../../../page/format.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';

const STATES = { healthy: 'healthy', ejected: 'ejected', probing: 'probing' };

export interface ProvidersProps {
  /** Undefined until loaded. */
  readonly targets: readonly TargetRow[] | undefined;
  /** When they were read. */
  readonly at: number;
}

/** Provider health, as the process that answered sees it. */
export function Providers({ targets, at }: ProvidersProps): JSX.Element {
  const head = (
    <>
      <Column>Provider</Column>
      <Column>State</Column>
      <Column class="number">Failures</Column>
      <Column class="number">First byte</Column>
      <Column class="number wide">Running</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="health-title">
      <div class="title">
        <h2 id="health-title">Providers</h2>
        <p class="faint">as this process sees them</p>
      </div>
      <Table id="health-rows" head={head}>
        {targets?.map((target) => (
          <Provider key={`${target.provider} ${target.model}`} target={target} at={at} />
        ))}
        {targets?.length === 0 && <EmptyRow columns={5}>This process has sent no requests yet.</EmptyRow>}
      </Table>
    </section>
  );
}

function Provider({ target, at }: { readonly target: TargetRow; readonly at: number }): JSX.Element {
  const { provider, model, state, failures_in_a_row, retry_at, first_byte_ms, running } = target;
  const waitMs = state === 'ejected' && retry_at !== undefined ? Date.parse(retry_at) - at : 0;
  return (
    <tr>
      <th scope="row">
        {provider}
        <small>{model}</small>
      </th>
      <td>
        <span class={`badge ${state}`}>{STATES[state]}</span>
        {waitMs > 0 && <small>{`retry in ${duration(Math.ceil(waitMs / 1000) * 1000)}`}</small>}
      </td>
      <NumberCell class={failures_in_a_row > 0 ? 'low' : ''}>
        {failures_in_a_row === 0 ? '–' : grouped(failures_in_a_row)}
      </NumberCell>
      <NumberCell>{first_byte_ms === undefined ? '–' : duration(first_byte_ms)}</NumberCell>
      <NumberCell class="wide">{running === 0 ? '–' : grouped(running)}</NumberCell>
    </tr>
  );
}
