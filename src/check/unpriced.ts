import type { Target } from '../models/catalog.ts';
import { unpricedAt } from '../models/server-tools.ts';

/** So many names are shown. */
const SHOWN = 4;

/** What the provider bills apart, and requests for this model are refused for, because it has no price for that. */
export function unpricedNote(target: Target): readonly string[] {
  const names = unpricedAt(target);
  if (names.length === 0) return [];
  const more = names.length - SHOWN;
  const shown = names.slice(0, SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '');
  const place = `${target.modelId} at ${target.provider.name}/${target.model}`;
  return [`${place} has no price for ${shown}: requests with that are refused`];
}
