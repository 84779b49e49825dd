/** What is typed in the fields of a form, by their names. */
export function formValues(form: HTMLFormElement): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...new FormData(form)].map(([name, value]) => [name, typeof value === 'string' ? value.trim() : '']),
  );
}

/** A day that was typed as its first moment in UTC, as an API takes it; a time stays as it is. */
export function timeOf(typed: string): string {
  return /^\d{4}-\d\d-\d\d$/.test(typed) ? `${typed}T00:00:00Z` : typed;
}
