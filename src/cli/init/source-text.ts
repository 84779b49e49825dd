/** A string literal in single quotes. */
export function quoted(text: string): string {
  return `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
}

/** An import line of a generated program, composed so that tools don't take it for an import of this package. */
export function importLine(what: string, from: string): string {
  return `import ${what} from ${quoted(from)};`;
}
