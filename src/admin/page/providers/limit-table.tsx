import type { JSX } from 'preact';

import type { LimitUse, ProviderLimit } from '../../../client/admin-api.generated.ts';
import { grouped } from '../../../page/format.ts';
import { Column, Table } from '../../../page/table.tsx';

/** What is used of the limits of a provider and of its targets, by each key. */
export function LimitTable({ limits }: { readonly limits: readonly ProviderLimit[] }): JSX.Element {
  const head = (
    <>
      <Column>Limit of</Column>
      <Column class="wide">Counted in</Column>
      <Column>Used</Column>
    </>
  );
  return (
    <details open>
      <summary>{`Limits: ${limits.length}`}</summary>
      <Table id="provider-limits" head={head}>
        {limits.map((limit) => {
          const { model, key, processes } = limit;
          return (
            <tr key={`${model} ${key}`}>
              <th scope="row">
                {model ?? 'all models'}
                <small>{key}</small>
              </th>
              <td class="wide">{processes === undefined ? 'this process' : `processes: ${processes}`}</td>
              <td class="wrap">
                {usesOf(limit).map(([unit, { used, limit: most, left }]) => (
                  <small
                    key={unit}
                  >{`${grouped(used)} of ${grouped(most)} ${unit}, ${grouped(left)} left`}</small>
                ))}
              </td>
            </tr>
          );
        })}
      </Table>
    </details>
  );
}

function usesOf(limit: ProviderLimit): (readonly [unit: string, use: LimitUse])[] {
  const uses = [
    ['requests a minute', limit.requests_per_minute],
    ['tokens a minute', limit.tokens_per_minute],
    ['running', limit.concurrent_requests],
  ] as const;
  return uses.flatMap(([unit, use]) => (use ? [[unit, use] as const] : []));
}
