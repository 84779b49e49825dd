import { MemberPlan } from '../http/member-plan.ts';
import type { AnswerTerms } from '../options/resolve-options.ts';
import { PRESET_FIELDS } from './preset-fields.ts';

const ROWS = Object.values(PRESET_FIELDS);
/** Members of all presets: a server without a preset may be a proxy for any of them. */
const ALL_COSTS = ROWS.flatMap(({ shows }) => shows?.cost ?? []);
const ALL_SUPPLIERS = ROWS.flatMap(({ shows }) => shows?.supplier ?? []);

const plans = new Map<string, MemberPlan | undefined>();

/** The edits of a provider's answers; undefined if there are none. By default, cost and supplier are hidden for presets
 * that show the operator's cost, and left as they are for others.
 */
export function answerPlan(
  preset: string | undefined,
  { model, provider, cost }: AnswerTerms,
): MemberPlan | undefined {
  const name = [preset, model, provider, cost].join();
  if (!plans.has(name)) plans.set(name, planOf(preset, { model, provider, cost }));
  return plans.get(name);
}

function planOf(preset: string | undefined, { model, provider, cost }: AnswerTerms): MemberPlan | undefined {
  const shows = preset === undefined ? undefined : PRESET_FIELDS[preset]?.shows;
  const defaults = shows?.cost ? shows : undefined;
  const costs = cost === undefined ? (defaults?.cost ?? []) : cost === 'theirs' ? [] : ALL_COSTS;
  const suppliers =
    provider === undefined ? (defaults?.supplier ?? []) : provider === 'show' ? [] : ALL_SUPPLIERS;
  const edits = {
    hidden: [...costs, ...suppliers],
    renames: model === 'ours',
    addsCost: cost === 'ours',
    hidesComments: suppliers.length > 0,
  };
  return edits.hidden.length > 0 || edits.renames ? new MemberPlan(edits) : undefined;
}
