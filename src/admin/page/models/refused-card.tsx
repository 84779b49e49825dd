import type { JSX } from 'preact';

import type { FoundRequests } from '../../../client/admin-api.generated.ts';
import { moment } from '../../../page/format.ts';
import { hrefOf } from '../../../page/route.ts';
import { Column, EmptyRow, Table } from '../../../page/table.tsx';

/** The last requests that asked for a feature without a price. */
export function RefusedCard({ refused: { data } }: { readonly refused: FoundRequests }): JSX.Element {
  const head = (
    <>
      <Column>Time</Column>
      <Column>Request</Column>
      <Column>Account</Column>
    </>
  );
  return (
    <section class="card" aria-labelledby="refused-title">
      <div class="title">
        <h2 id="refused-title">Refused: features without a price</h2>
        <a class="plain" href={hrefOf('requests', undefined, { code: 'unpriced_feature' })}>
          All
        </a>
      </div>
      <Table id="refused-rows" head={head}>
        {data.map(({ id, created_at: createdAt, account }) => (
          <tr key={id}>
            <td>{moment(createdAt)}</td>
            <th scope="row">
              <a href={hrefOf('requests', id)}>{id}</a>
            </th>
            <td>
              <a href={hrefOf('accounts', account)}>{account}</a>
            </td>
          </tr>
        ))}
        {data.length === 0 && <EmptyRow columns={3}>None in the log.</EmptyRow>}
      </Table>
    </section>
  );
}
