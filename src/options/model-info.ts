/**
 * What the record of a model in `GET /models` says beside its limits and prices. Nothing of it is enforced, but for
 * `supportedParameters` where a request has `require_parameters`. A member that is
 * left out comes from the provider's own list, for a discovered model, or else from the router's option `modelInfo`.
 */
export interface ModelInfo {
  /** @default its ID */
  readonly name?: string;
  readonly description?: string;
  /**
   * When the model was released, in Unix seconds.
   *
   * @default 0, unknown
   */
  readonly created?: number;
  /**
   * `owned_by` of the model's record.
   *
   * @default the part of the ID before its first slash, else `system`
   */
  readonly ownedBy?: string;
  /**
   * Input modalities in OpenRouter's terms: `text`, `image`, `file`, `audio`, `video`.
   *
   * @default ['text']
   */
  readonly inputModalities?: readonly string[];
  /**
   * Output modalities, in the same terms.
   *
   * @default ['text']
   */
  readonly outputModalities?: readonly string[];
  /**
   * Supported parameters in OpenRouter's terms: `tools`, `reasoning`, `structured_outputs` and so on. Some clients offer
   * tools only where `tools` is among them.
   *
   * @default [], unknown
   */
  readonly supportedParameters?: readonly string[];
  /**
   * Tags in the Vercel AI Gateway's terms, e.g. `reasoning`. Those that follow from the modalities and parameters are added:
   * `reasoning`, `tool-use`, `vision`, `file-input`, `image-generation`.
   */
  readonly tags?: readonly string[];
  /** The last day or month of its training data: `2024-10-01`, `2024-10` or `2024`. */
  readonly knowledgeCutoff?: string;
  /** Which reasoning efforts it takes. */
  readonly reasoning?: ReasoningInfo;
  /** Family of its tokenizer, e.g. `GPT` or `Claude`. */
  readonly tokenizer?: string;
  /** Format of its instructions, e.g. `chatml`. */
  readonly instructType?: string;
  /** Its ID at Hugging Face. */
  readonly huggingFaceId?: string;
  /** Values of parameters that a request doesn't set: `{ temperature: 0.6 }`. */
  readonly defaultParameters?: Readonly<Record<string, number | null>>;
}

export interface ReasoningInfo {
  /** Whether it always reasons. */
  readonly mandatory: boolean;
  /** E.g. `['low', 'medium', 'high']`. @default unknown */
  readonly supportedEfforts?: readonly string[];
  /** @default unknown */
  readonly defaultEffort?: string;
}
