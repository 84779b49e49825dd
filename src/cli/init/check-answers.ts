import { existsSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';

import { openStore } from '../../ledger/stores/open-store.ts';
import { KNOWN_PROVIDERS } from './known-providers.ts';

/** Values for the base URLs of providers: provider → variable → value. */
export type ProviderVariables = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Why a store can't be used; undefined if it can. Reads no network. */
export async function storeMistake(store: string, folder: string): Promise<string | undefined> {
  if (store === 'memory:') return 'memory: stores exist only inside their process; use sqlite: or redis:';
  try {
    await openStore(store).close();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  const file = /^sqlite:(.+)/s.exec(store)?.[1];
  if (file === undefined) return undefined;
  const parent = dirname(isAbsolute(file) ? file : join(folder, file));
  return existsSync(parent) ? undefined : `the folder of ${file} does not exist; create it first`;
}

/**
 * Parses `azure.resource=contoso,vertex.project=p`.
 *
 * @throws {TypeError} for a variable that no chosen provider has, and for one that is missing
 */
export function providerVariables(text: string | undefined, providers: readonly string[]): ProviderVariables {
  const wanted = wantedVariables(providers);
  const given = new Map<string, string>();
  for (const pair of text === undefined ? [] : text.split(',')) {
    const [, name = '', value = ''] = /^([^=]+)=(.+)$/s.exec(pair) ?? [];
    if (!wanted.some((each) => each.name === name)) {
      const names = wanted.map((each) => each.name).join(', ') || 'none for these providers';
      throw new TypeError(
        `--variables must be as azure.resource=contoso, with ${names}; got ${JSON.stringify(pair)}`,
      );
    }
    given.set(name, value);
  }
  const missing = wanted.find(({ name }) => !given.has(name));
  if (missing) {
    throw new TypeError(
      `${missing.provider} requires --variables ${missing.name}=…, such as ${missing.example}`,
    );
  }
  return collect(wanted.map((each) => ({ ...each, value: given.get(each.name) ?? '' })));
}

/** A variable in the base URL of a provider. */
export interface WantedVariable {
  readonly provider: string;
  readonly variable: string;
  /** As `--variables` names it: `azure.resource`. */
  readonly name: string;
  readonly example: string;
}

export function wantedVariables(providers: readonly string[]): readonly WantedVariable[] {
  return KNOWN_PROVIDERS.filter(({ name }) => providers.includes(name)).flatMap(
    ({ name: provider, variables }) =>
      Object.entries(variables ?? {}).map(([variable, example]) => ({
        provider,
        variable,
        name: `${provider}.${variable}`,
        example,
      })),
  );
}

export function collect(
  values: readonly { readonly provider: string; readonly variable: string; readonly value: string }[],
): ProviderVariables {
  const all: Record<string, Record<string, string>> = {};
  for (const { provider, variable, value } of values) (all[provider] ??= {})[variable] = value;
  return all;
}
