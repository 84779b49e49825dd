import { KeyMatcher } from '../json/key-matcher.ts';

/** What becomes of a member. */
export interface MemberRole {
  /** Where its value stands. */
  readonly path: string;
  readonly edit: 'hide' | 'rename' | undefined;
}

/** The place of a whole answer. */
export const ANSWER = '$';
export const USAGE = '$.usage';

export interface MemberEdits {
  /** As `usage.cost` or `choices[].message.provider_metadata`. */
  readonly hidden: readonly string[];
  /** `model` is what the client asked for. */
  readonly renames: boolean;
  /** `usage` ends with what is charged, as `cost`. */
  readonly tellsCost: boolean;
  readonly hidesComments: boolean;
}

/** Which members of an answer are edited, by the objects that they stand in. */
export class MemberPlan {
  readonly tellsCost: boolean;
  readonly hidesComments: boolean;
  readonly #places: ReadonlyMap<string, KeyMatcher<MemberRole>>;

  constructor({ hidden, renames, tellsCost, hidesComments }: MemberEdits) {
    this.tellsCost = tellsCost;
    this.hidesComments = hidesComments;
    const places = new Map<string, Record<string, MemberRole>>();
    for (const path of tellsCost ? [...hidden, 'usage.cost'] : hidden) add(places, path, 'hide');
    if (renames) add(places, 'model', 'rename');
    this.#places = new Map([...places].map(([place, roles]) => [place, new KeyMatcher(roles)]));
  }

  /** Of the objects there; undefined where none of their members is edited. */
  at(place: string): KeyMatcher<MemberRole> | undefined {
    return this.#places.get(place);
  }
}

function add(
  places: Map<string, Record<string, MemberRole>>,
  path: string,
  edit: NonNullable<MemberRole['edit']>,
): void {
  const steps = path.split('.');
  let place = ANSWER;
  for (const [index, step] of steps.entries()) {
    const name = step.replace('[]', '');
    let roles = places.get(place);
    if (!roles) places.set(place, (roles = {}));
    if (index === steps.length - 1) roles[name] = { path: `${place}.${name}`, edit };
    else roles[name] ??= { path: `${place}.${name}`, edit: undefined };
    place = `${place}.${step}`;
  }
}
