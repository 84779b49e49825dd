import type { ComponentChildren, JSX } from 'preact';

export interface TableProps {
  /** Of the table's body. */
  readonly id: string;
  /** Header cells. */
  readonly head: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Table({ id, head, children }: TableProps): JSX.Element {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody id={id}>{children}</tbody>
      </table>
    </div>
  );
}

export interface CellProps {
  readonly class?: string;
  readonly children?: ComponentChildren;
}

export function Column({ class: kind, children }: CellProps): JSX.Element {
  return (
    <th scope="col" class={kind}>
      {children}
    </th>
  );
}

export function NumberCell({ class: kind = '', children }: CellProps): JSX.Element {
  return <td class={`number ${kind}`}>{children}</td>;
}

/** A placeholder row over all columns. */
export function EmptyRow({ columns, children }: CellProps & { readonly columns: number }): JSX.Element {
  return (
    <tr class="empty">
      <td colSpan={columns}>{children}</td>
    </tr>
  );
}
