import type { JsonListener } from '../json/scanner.ts';
import type { JsonKind, JsonToken } from '../json/token.ts';
import { ANSWER, type MemberPlan, type MemberRole, USAGE } from './member-plan.ts';
import type { Splicer } from './splicer.ts';

/** An object or array on the path to a member that may be edited. */
interface Container {
  readonly isObject: boolean;
  /** Offset after its opening brace, or after the last member that stays. */
  end: number;
  /** Some member stays. */
  stays: boolean;
  /** A member was removed before the first that stays. */
  hid: boolean;
}

/** Marks for containers in which nothing is edited: one that stays, one that is removed, and those inside either. */
const PASSED = 'passed';
const DROPPED = 'dropped';
const INSIDE = 'inside';

/**
 * Edits members of one JSON document after another as a scanner passes them. A removed member goes with the comma before
 * it, or, if it is the first, with the comma after it. Its value is never buffered, however long it is.
 */
export class MemberEditor implements JsonListener<string> {
  /** Stream offset from which bytes may still have to be removed; Infinity if none may. */
  limit: number = Infinity;
  /** Difference between stream offsets and document offsets. */
  shift = 0;
  /** Everything up to the end of the current value is being removed. */
  #isDropping = false;
  readonly #plan: MemberPlan;
  readonly #splicer: Splicer;
  readonly #model: string;
  #role: MemberRole | undefined;
  #containers: Container[] = [];

  /** @param model - the value for the answer's `model`, if that is edited */
  constructor(plan: MemberPlan, splicer: Splicer, model: string) {
    this.#plan = plan;
    this.#splicer = splicer;
    this.#model = JSON.stringify(model);
  }

  /** The document was read up to this stream offset. */
  readTo(offset: number): void {
    if (!this.#isDropping) return;
    this.#splicer.skipTo(offset);
    this.limit = offset;
  }

  /** Another document begins, or the rest of the current one is invalid. */
  begin(): void {
    this.limit = Infinity;
    this.#isDropping = false;
    this.#role = undefined;
    if (this.#containers.length > 0) this.#containers = [];
  }

  key(within: string, token: JsonToken): void {
    const container = this.#containers.at(-1);
    const roles = this.#plan.at(within);
    if (!container || !roles) return;
    const match = roles.find(token);
    this.#role = match?.exact ? match.role : undefined;
    if (this.#role?.edit === 'hide') {
      this.#splicer.copyTo(container.end);
      container.hid ||= !container.stays;
      this.#isDropping = true;
      return;
    }
    if (container.hid) this.#splicer.skipTo(token.start + this.shift);
    container.hid = false;
    container.stays = true;
    this.limit = Infinity;
    if (this.#role?.edit !== 'rename') return;
    this.limit = token.end + this.shift;
    this.#splicer.copyTo(this.limit);
    this.#splicer.insert(`:${this.#model}`);
    this.#isDropping = true;
  }

  value(within: string, kind: JsonKind, token: JsonToken): string {
    if (within === PASSED || within === DROPPED || within === INSIDE) return INSIDE;
    const isContainer = kind === 'object' || kind === 'array';
    if (!isContainer) {
      if (this.#isDropping) this.#endDropped(token);
      else this.#endMember(token);
      return INSIDE;
    }
    if (this.#isDropping) return DROPPED;
    const path = this.#pathOf(within, kind);
    if (path === undefined) return PASSED;
    const end = token.end + this.shift;
    const isObject = kind === 'object';
    this.#containers.push({ isObject, end, stays: false, hid: false });
    this.limit = isObject ? end : Infinity;
    return path;
  }

  close(mark: string, token: JsonToken): void {
    if (mark === INSIDE) return;
    if (mark === DROPPED) {
      this.#endDropped(token);
      return;
    }
    if (mark !== PASSED) {
      const container = this.#containers.pop();
      if (mark === USAGE && container?.isObject && this.#plan.addsCost) {
        this.#addCost(container, token.end + this.shift - 1);
      }
    }
    this.#endMember(token);
  }

  /** The path of a container in which something may be edited. */
  #pathOf(within: string, kind: 'object' | 'array'): string | undefined {
    if (within === 'document') return kind === 'object' ? ANSWER : undefined;
    const isElement = this.#containers.at(-1)?.isObject === false;
    const path = isElement ? `${within}[]` : this.#role?.path;
    if (path === undefined) return undefined;
    return this.#plan.at(kind === 'object' ? path : `${path}[]`) && path;
  }

  #endMember(token: JsonToken): void {
    const container = this.#containers.at(-1);
    if (!container?.isObject) {
      this.limit = Infinity;
      return;
    }
    container.end = token.end + this.shift;
    this.limit = container.end;
  }

  #endDropped(token: JsonToken): void {
    const end = token.end + this.shift;
    this.#splicer.skipTo(end);
    this.#isDropping = false;
    const container = this.#containers.at(-1);
    if (container && this.#role?.edit === 'rename') container.end = end;
  }

  /** Inserts before the closing brace of `usage`: the bytes before that, even a line end, may have been sent already. */
  #addCost({ stays }: Container, brace: number): void {
    this.#splicer.copyTo(brace);
    this.#splicer.reserve(stays ? ',"cost":' : '"cost":');
  }
}
