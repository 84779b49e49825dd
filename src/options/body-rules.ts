/**
 * What becomes of top-level fields of a request on its way to a provider or target. All other bytes stay as the client wrote them.
 *
 * Of a provider and its target both count; where both have a rule for a field, the target's does. No field may stand in two
 * rules, so none depends on another one. What the router bills or acts by (`model`, `messages`, `stream`, `stream_options`,
 * `n`, output limits) has no rules, but for a `rename` of one of the two output limits to the other.
 */
export interface BodyRules {
  /**
   * Fields that every request has, whatever the client wrote: `{ store: false }`. A function is called once for each attempt,
   * and its value may have 512 bytes as JSON; where it returns undefined, the request goes out without the field.
   */
  readonly set?: Readonly<Record<string, BodyValue>>;
  /** Fields that a request has where the client did not write them; one that it wrote as null stays null. */
  readonly default?: Readonly<Record<string, BodyValue>>;
  /** Fields that are taken out: `['logit_bias']`. */
  readonly drop?: readonly string[];
  /**
   * Fields that get another name; their values stay: `{ max_tokens: 'max_completion_tokens' }`. A request that has both is a
   * 400 `ambiguous_parameter`.
   */
  readonly rename?: Readonly<Record<string, string>>;
}

/** A value of a field, or how it is made for a caller. */
export type BodyValue = JsonValue | MakeBodyValue;

export type MakeBodyValue = (caller: BodyCaller) => JsonValue | undefined;

/** Whose request it is. */
export interface BodyCaller {
  readonly account: string;
  /** The key's id, or the host's label for it. */
  readonly key: string;
  /** The model's ID here, whichever alias the client used. */
  readonly model: string;
}

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };
