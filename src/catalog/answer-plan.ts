import { MemberPlan } from '../http/member-plan.ts';
import type { AnswerTerms } from '../options/resolve-options.ts';
import { PRESET_FIELDS } from './preset-fields.ts';

const ROWS = Object.values(PRESET_FIELDS);
/** What any preset shows: a server without one may have any of them behind it. */
const ALL_COSTS = ROWS.flatMap(({ shows }) => shows?.cost ?? []);
const ALL_SUPPLIERS = ROWS.flatMap(({ shows }) => shows?.supplier ?? []);

const plans = new Map<string, MemberPlan | undefined>();

/**
 * What is edited in the answers of a provider; undefined where nothing is. What is undecided is hidden of a preset that
 * tells what an answer costs the operator, and else left as it is.
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
  const told = shows?.cost ? shows : undefined;
  const costs = cost === undefined ? (told?.cost ?? []) : cost === 'theirs' ? [] : ALL_COSTS;
  const suppliers =
    provider === undefined ? (told?.supplier ?? []) : provider === 'show' ? [] : ALL_SUPPLIERS;
  const edits = {
    hidden: [...costs, ...suppliers],
    renames: model === 'ours',
    addsCost: cost === 'ours',
    hidesComments: suppliers.length > 0,
  };
  return edits.hidden.length > 0 || edits.renames ? new MemberPlan(edits) : undefined;
}
