import type { Quote } from '../metering/estimate.ts';
import type { Model, SelectedModels, Target } from '../catalog/model.ts';
import { TargetsEjectedError } from '../errors/upstream-errors.ts';
import type { CircuitBreakers } from './circuit-breaker.ts';
import type { Conversation } from './conversations.ts';
import type { EjectionsByHand } from './ejections-by-hand.ts';
import { rankTargets } from './rank-targets.ts';

/** Whose request it is, and what the order of its targets depends on. */
export interface OrderTerms {
  readonly quote: Quote;
  readonly breakers: CircuitBreakers;
  readonly account: string;
  /** Goes on, within each model, where its last turn was served. Undefined if the request belongs to none. */
  readonly conversation: Conversation | undefined;
}

/**
 * The targets of several models, those of the first before those of the next, unless the client sorts all of them together.
 *
 * @throws {TargetsEjectedError} if operators have ejected all of them
 */
export function targetsInOrder(models: SelectedModels, terms: OrderTerms): readonly [Target, ...Target[]] {
  const { byHand } = terms.breakers;
  const served = byHand.isEmpty ? models : withoutEjected(models, byHand);
  if (served.length === 1) return orderTargets(served[0], terms);
  const [model, ...rest] = served;
  if (model.clientOrder?.acrossModels) {
    const others = rest.flatMap(({ targets }) => targets);
    return orderTargets({ ...model, targets: [...model.targets, ...others] }, terms);
  }
  return [...orderTargets(model, terms), ...rest.flatMap((each) => orderTargets(each, terms))];
}

/** @throws {TargetsEjectedError} if operators have ejected all of them */
function withoutEjected(models: SelectedModels, byHand: EjectionsByHand): SelectedModels {
  const now = Date.now();
  const ends: number[] = [];
  const left = models.flatMap((model) => {
    const [first, ...others] = model.targets.filter((target) => {
      const ejection = byHand.of(target, now);
      if (ejection) ends.push(ejection.until?.getTime() ?? Infinity);
      return !ejection;
    });
    return first ? [{ ...model, targets: [first, ...others] as const }] : [];
  });
  const [first, ...others] = left;
  if (!first) throw new TargetsEjectedError(Math.min(...ends) - now);
  return [first, ...others];
}

/** Orders targets for trying; ejected ones come last, but are still tried. */
function orderTargets(model: Model, terms: OrderTerms): readonly [Target, ...Target[]] {
  return model.targets.length === 1 ? model.targets : rankedTargets(model, terms);
}

function rankedTargets(model: Model, terms: OrderTerms): readonly [Target, ...Target[]] {
  const { targets, strategy, clientOrder } = model;
  const [only] = targets;
  const { quote, breakers, account, conversation } = terms;
  const now = Date.now();
  const available: Target[] = [];
  const ejected: Target[] = [];
  for (const target of targets) {
    (breakers.of(target).isAvailable(now, account) ? available : ejected).push(target);
  }
  const rank = { quote, breakers, conversation, now, random: Math.random };
  const ranked = rankTargets(available, strategy, rank);
  // A client that chooses the order means it.
  const ordered = clientOrder?.isChosen
    ? withFirst(ranked, clientOrder.first)
    : (conversation?.preferred(ranked) ?? ranked);
  ejected.sort((a, b) => breakers.of(a).retryAt - breakers.of(b).retryAt);
  const [first = only, ...rest] = [...ordered, ...ejected];
  return clientOrder?.firstOnly ? [first] : [first, ...rest];
}

/** @param names - of the providers that come first, in lower case */
function withFirst(targets: readonly Target[], names: readonly string[]): readonly Target[] {
  if (names.length === 0) return targets;
  const rank = ({ provider }: Target): number => {
    const index = names.indexOf(provider.name.toLowerCase());
    return index === -1 ? names.length : index;
  };
  return targets.toSorted((a, b) => rank(a) - rank(b));
}
