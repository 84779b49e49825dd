/** A line of CSV by RFC 4180, without its end. */
export function csvLine(cells: readonly string[]): string {
  return cells.map(csvCell).join(',');
}

/**
 * Where a spreadsheet would begin a formula: in a cell, and after what it takes for a separator in some countries. The wide
 * signs are read as the narrow ones.
 */
const FORMULA = /(?:^|(?<=[;\t]))(?=[=+@\t\r\n＝＋－＠]|-(?!\d+(?:\.\d+)?$))/g;

/** An apostrophe prevents formula injection by names that others choose, as clients those of models. */
function csvCell(cell: string): string {
  const text = cell.replaceAll(FORMULA, "'");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
