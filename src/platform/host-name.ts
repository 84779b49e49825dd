import { hostname } from 'node:os';

/** The name of this machine; undefined where the process may not ask for it, as in Deno without `--allow-sys`. */
export function hostName(): string | undefined {
  try {
    return hostname();
  } catch {
    return undefined;
  }
}
