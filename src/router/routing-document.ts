import type { EjectionByHand } from '../observability/provider-status.ts';
import type { PlacedEjection } from '../upstream/ejections-by-hand.ts';
import type { WeightByHand, WeightedPlace } from '../upstream/weights-by-hand.ts';
import { isRecord } from '../platform/is-record.ts';

/** What operators have changed of the routing, for all processes of a store. */
export interface RoutingDocument {
  readonly ejections: readonly PlacedEjection[];
  readonly weights: readonly (WeightedPlace & WeightByHand)[];
  /** The latest: each process ends the ejections after failures that it has. */
  readonly readmissions: readonly Readmission[];
  /** Providers that go on although they have cost what they may, until the end of the period. */
  readonly resumed: readonly { readonly provider: string; readonly until: Date }[];
}

export interface Readmission {
  /** Names it: a process acts on it once. */
  readonly id: string;
  readonly at: Date;
  readonly provider: string;
  /** Undefined: all targets of the provider. */
  readonly model?: string | undefined;
}

/** Most entries of a document, of all kinds. */
export const MAX_ENTRIES = 1000;
/** Longer than any process takes to read it. */
const READMISSION_MS = 60_000;

export const NO_CHANGES: RoutingDocument = { ejections: [], weights: [], readmissions: [], resumed: [] };

export function entryCount({ ejections, weights, readmissions, resumed }: RoutingDocument): number {
  return ejections.length + weights.length + readmissions.length + resumed.length;
}

/** Without what is over. */
export function current(document: RoutingDocument, now: number): RoutingDocument {
  const lasts = ({ until }: { readonly until?: Date }): boolean =>
    until === undefined || until.getTime() > now;
  return {
    ejections: document.ejections.filter(({ ejection }) => lasts(ejection)),
    weights: document.weights,
    readmissions: document.readmissions.filter(({ at }) => at.getTime() + READMISSION_MS > now),
    resumed: document.resumed.filter(lasts),
  };
}

/** Says which form it has, so that a release with another one leaves it alone. */
export function writeDocument(document: RoutingDocument): string {
  return JSON.stringify({ form: FORM, ...document });
}

/** @throws {Error} if it is of another release, or damaged */
export function readDocument(text: string): RoutingDocument {
  const read: unknown = JSON.parse(text, revive);
  if (isRecord(read) && read['form'] === FORM) {
    const { ejections, weights, readmissions, resumed } = read;
    if (
      isListOf(ejections, isEjection) &&
      isListOf(weights, isWeight) &&
      isListOf(readmissions, isReadmission) &&
      isListOf(resumed, isResumed)
    )
      return { ejections, weights, readmissions, resumed };
  }
  throw new Error('The changes of the routing by hand have the form of another release');
}

const FORM = 1;
const TIMES: ReadonlySet<string> = new Set(['at', 'until']);

function revive(name: string, value: unknown): unknown {
  return TIMES.has(name) && typeof value === 'string' ? new Date(value) : value;
}

function isListOf<T>(value: unknown, is: (item: unknown) => item is T): value is readonly T[] {
  return Array.isArray(value) && value.every(is);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isTextOrNone(value: unknown): value is string | undefined {
  return value === undefined || isText(value);
}

function isTime(value: unknown): value is Date {
  return value instanceof Date && !Number.isNaN(value.getTime());
}

function isEjection(value: unknown): value is PlacedEjection {
  if (!isRecord(value) || !isText(value['provider']) || !isTextOrNone(value['model'])) return false;
  const { ejection } = value;
  return isRecord(ejection) && isEjectionByHand(ejection);
}

function isEjectionByHand(value: Record<string, unknown>): value is Record<string, unknown> & EjectionByHand {
  const { at, by, reason, until } = value;
  return isTime(at) && isTextOrNone(by) && isTextOrNone(reason) && (until === undefined || isTime(until));
}

function isWeight(value: unknown): value is WeightedPlace & WeightByHand {
  if (!isRecord(value)) return false;
  const { id, provider, model, weight, at, by } = value;
  const isPlace = isText(id) && isText(provider) && isText(model);
  return isPlace && typeof weight === 'number' && weight >= 0 && isTime(at) && isTextOrNone(by);
}

function isReadmission(value: unknown): value is Readmission {
  if (!isRecord(value)) return false;
  const { id, at, provider, model } = value;
  return isText(id) && isTime(at) && isText(provider) && isTextOrNone(model);
}

function isResumed(value: unknown): value is RoutingDocument['resumed'][number] {
  return isRecord(value) && isText(value['provider']) && isTime(value['until']);
}
