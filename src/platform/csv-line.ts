/** A line of CSV by RFC 4180, without its end. */
export function csvLine(cells: readonly string[]): string {
  return cells.map(csvCell).join(',');
}

/** An apostrophe prevents formula injection by names that clients choose, as of models. */
function csvCell(cell: string): string {
  const text = /^[=+@\t\r]|^-(?!\d+(\.\d+)?$)/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
