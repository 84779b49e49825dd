import { KeyMatcher } from '../json/key-matcher.ts';

/** A known member and its edit. */
export interface MemberRole {
  /** The path of its value. */
  readonly path: string;
  readonly edit: 'hide' | 'rename' | undefined;
}

/** The path of the whole answer. */
export const ANSWER = '$';
export const USAGE = '$.usage';

export interface AnswerMemberEdits {
  /** Paths such as `usage.cost` or `choices[].message.provider_metadata`. */
  readonly hidden: readonly string[];
  /** `model` becomes what the client asked for. */
  readonly renames: boolean;
  /** The charge is added at the end of `usage`, as `cost`. */
  readonly addsCost: boolean;
  readonly hidesComments: boolean;
}

/** Which members of an answer are edited, by the path of the object that contains them. */
export class MemberPlan {
  readonly addsCost: boolean;
  readonly hidesComments: boolean;
  readonly #matchers: ReadonlyMap<string, KeyMatcher<MemberRole>>;

  constructor({ hidden, renames, addsCost, hidesComments }: AnswerMemberEdits) {
    this.addsCost = addsCost;
    this.hidesComments = hidesComments;
    const rolesByPath = new Map<string, Record<string, MemberRole>>();
    for (const path of addsCost ? [...hidden, 'usage.cost'] : hidden) add(rolesByPath, path, 'hide');
    if (renames) add(rolesByPath, 'model', 'rename');
    this.#matchers = new Map([...rolesByPath].map(([path, roles]) => [path, new KeyMatcher(roles)]));
  }

  /** The edited members of the objects at this path; undefined if there are none. */
  at(path: string): KeyMatcher<MemberRole> | undefined {
    return this.#matchers.get(path);
  }
}

function add(
  rolesByPath: Map<string, Record<string, MemberRole>>,
  path: string,
  edit: NonNullable<MemberRole['edit']>,
): void {
  const steps = path.split('.');
  let container = ANSWER;
  for (const [index, step] of steps.entries()) {
    const name = step.replace('[]', '');
    let roles = rolesByPath.get(container);
    if (!roles) rolesByPath.set(container, (roles = {}));
    if (index === steps.length - 1) roles[name] = { path: `${container}.${name}`, edit };
    else roles[name] ??= { path: `${container}.${name}`, edit: undefined };
    container = `${container}.${step}`;
  }
}
