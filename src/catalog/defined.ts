/** The members of an object that aren't undefined, for types with optional members. */
export function defined<T extends object>(given: T): { [name in keyof T]?: Exclude<T[name], undefined> } {
  const known = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(known) as { [name in keyof T]?: Exclude<T[name], undefined> };
}
