/** The members of an object that aren't undefined, for types with optional members. */
export function defined<T extends object>(given: T): Defined<T> {
  const known = Object.entries(given).filter(([, value]) => value !== undefined);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same members, with the same values
  return Object.fromEntries(known) as Defined<T>;
}

type Defined<T> = { [name in keyof T]?: Exclude<T[name], undefined> };
