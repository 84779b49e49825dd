import type { JSX } from 'preact';

import type { ProviderKey } from '../../../client/admin-api.generated.ts';
import { grouped, moment } from '../../../page/format.ts';
import { Column, Table } from '../../../page/table.tsx';

const STATES = { available: 'available', rate_limited: 'rate limited', refused: 'refused' };
const KINDS = { available: 'healthy', rate_limited: 'low', refused: 'ejected' };

/** The keys of a provider's pool, and what its last answers say is left of their rate limits. */
export function KeyTable({ keys }: { readonly keys: readonly ProviderKey[] }): JSX.Element {
  const head = (
    <>
      <Column>Key</Column>
      <Column>State</Column>
      <Column>What is left</Column>
    </>
  );
  return (
    <details>
      <summary>{`Keys: ${keys.length}`}</summary>
      <Table id="provider-keys" head={head}>
        {keys.map(({ name, masked, state, until, limits }) => (
          <tr key={name}>
            <th scope="row">
              {name}
              <small>{masked}</small>
            </th>
            <td>
              <span class={`badge ${KINDS[state]}`}>{STATES[state]}</span>
              {until !== undefined && <small>{`until ${moment(until)}`}</small>}
            </td>
            <td class="wrap">
              {limits.length === 0 && '–'}
              {limits.map(({ model, name: limit, remaining, limit: max }) => (
                <small key={`${model} ${limit}`}>
                  {`${model}: ${grouped(remaining)}${max === undefined ? '' : ` of ${grouped(max)}`} ${limit}`}
                </small>
              ))}
            </td>
          </tr>
        ))}
      </Table>
    </details>
  );
}
