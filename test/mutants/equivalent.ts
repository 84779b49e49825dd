/**
 * Mutants that change nothing that can be seen, with the reason why; the hunt
 * leaves them out. An entry that matches no line is an error of this list.
 */
export interface Equivalent {
  readonly file: string;
  readonly original: string;
  readonly mutant: string;
  readonly because: string;
}

export const EQUIVALENT: readonly Equivalent[] = [];
