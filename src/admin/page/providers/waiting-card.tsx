import type { JSX } from 'preact';

import type { Providers } from '../../../client/admin-api.generated.ts';
import { grouped } from '../../../page/format.ts';
import { Column, NumberCell, Table } from '../../../page/table.tsx';

/** The models whose requests wait in line. */
export function WaitingCard({ lines }: { readonly lines: Providers['waiting'] }): JSX.Element {
  const head = (
    <>
      <Column>Model</Column>
      <Column class="number">Requests that wait</Column>
      <Column class="number">At most</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="waiting-title">
      <h2 id="waiting-title">Waiting in line</h2>
      <Table id="waiting" head={head}>
        {lines.map(({ model, waiting, most }) => (
          <tr key={model}>
            <th scope="row">{model}</th>
            <NumberCell>{grouped(waiting)}</NumberCell>
            <NumberCell>{grouped(most)}</NumberCell>
          </tr>
        ))}
      </Table>
    </section>
  );
}
