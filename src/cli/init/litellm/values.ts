/** A mapping of a parsed YAML or JSON file. */
export type YamlRecord = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is YamlRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function records(value: unknown): readonly YamlRecord[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

export function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}

export function nonEmptyText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function positive(value: unknown): number | undefined {
  const number = nonNegative(value);
  return number === 0 ? undefined : number;
}

export function nonNegative(value: unknown): number | undefined {
  const number = nonEmptyText(value) === undefined ? value : Number(value);
  return typeof number === 'number' && Number.isFinite(number) && number >= 0 ? number : undefined;
}

/** The variable of `os.environ/NAME`, LiteLLM's reference to the environment. */
export function environmentName(value: unknown): string | undefined {
  return typeof value === 'string' ? /^os\.environ\/(\w+)$/.exec(value)?.[1] : undefined;
}

/** Why a value is not converted. */
export const IN_ENVIRONMENT = 'its value is in the environment, and is not read from there: set it by hand';

/** What differs from LiteLLM, or has no equivalent; many settings can share a reason. */
export class Notes {
  readonly #settings = new Map<string, Set<string>>();

  add(setting: string, why: string): void {
    this.#settings.set(why, (this.#settings.get(why) ?? new Set()).add(setting));
  }

  list(): readonly { readonly setting: string; readonly why: string }[] {
    return [...this.#settings].map(([why, settings]) => ({ setting: [...settings].join(', '), why }));
  }
}
