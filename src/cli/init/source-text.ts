/** A string, as source has it. */
export function quoted(text: string): string {
  return `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
}

/** A line of another program: put together, so that nobody takes it for an import of this one. */
export function importLine(what: string, from: string): string {
  return `import ${what} from ${quoted(from)};`;
}
