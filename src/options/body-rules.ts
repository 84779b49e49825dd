/**
 * Edits of top-level fields of the requests to a provider or target. All other bytes stay as the client wrote them.
 *
 * The rules of the provider and of its target both apply; for the same field, the target's rule wins. A field may be in one
 * rule only, so no rule depends on another. Fields that the router interprets (`model`, `messages`, `stream`,
 * `stream_options`, `n`, output limits) can't have rules, except a `rename` of one output limit to the other.
 */
export interface BodyRules {
  /**
   * Sets fields in every request, whatever the client wrote: `{ store: false }`. A function is called once per attempt; its
   * value may have up to 512 bytes as JSON. If it returns undefined, the field is removed.
   */
  readonly set?: Readonly<Record<string, BodyValue>>;
  /** Adds fields that the client did not send; a field that it sent as null stays null. */
  readonly default?: Readonly<Record<string, BodyValue>>;
  /** Removes fields: `['logit_bias']`. */
  readonly drop?: readonly string[];
  /**
   * Renames fields and keeps their values: `{ max_tokens: 'max_completion_tokens' }`. A request with both is a 400
   * `ambiguous_parameter`.
   */
  readonly rename?: Readonly<Record<string, string>>;
}

/** The value of a field, or a function that makes it for a caller. */
export type BodyValue = JsonValue | MakeBodyValue;

export type MakeBodyValue = (caller: BodyCaller) => JsonValue | undefined;

/** The caller of a request. */
export interface BodyCaller {
  readonly account: string;
  /** The key's ID, or your app's label for it. */
  readonly key: string;
  /** The model's ID in `models`, even if the client used an alias. */
  readonly model: string;
}

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };
