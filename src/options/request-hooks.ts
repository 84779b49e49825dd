import type { IncomingHttpHeaders } from 'node:http';

/** What becomes of a request if the app's function throws, takes too long, or returns something invalid. */
export type HookFailurePolicy = 'refuse' | 'pass';

/** Whose request it is, for `route` and `guard`. */
export interface HookCaller {
  readonly account: string;
  /** The key's ID, or your app's label for it. */
  readonly key: string;
  /** The end user, if `authenticate` or the option `dimensions` says one. */
  readonly user?: string;
  /** The tags of the request, by their names in the option `dimensions`. */
  readonly tags: Readonly<Record<string, string>>;
}

/** What is known of a request before its model is chosen. */
export interface RouteFacts {
  /** `x-request-id` of the response, and the ID in the journal. */
  readonly requestId: string;
  /** As the client wrote it; it need not exist. */
  readonly model: string;
  /** Whether a stream is requested. */
  readonly stream: boolean;
  /** Size of the body, in bytes. */
  readonly bytes: number;
  /** The estimated tokens of the prompt: four ASCII characters or 1.3 others to a token. */
  readonly promptTokens: number;
  /** Names in lower case, without those that hold keys or cookies. */
  readonly headers: IncomingHttpHeaders;
  /** Aborted when the client disconnects, the time is over, or the router is closed. */
  readonly signal: AbortSignal;
}

/** Names the model of a request; undefined for the one that the client asked for. */
export type Route = (
  facts: RouteFacts,
  caller: HookCaller,
) => string | undefined | Promise<string | undefined>;

export interface RouteOptions {
  readonly run: Route;
  /** How long a request waits for it, in ms. @default 5000 */
  readonly timeoutMs?: number;
  /**
   * `refuse` answers 503 `route_unavailable`; `pass` uses the model that the client asked for. What went wrong goes to
   * `onError` of the hooks.
   *
   * @default 'refuse'
   */
  readonly onError?: HookFailurePolicy;
}

/** A message as the client wrote it: only that it is an object was checked. */
export type GuardMessage = Readonly<Record<string, unknown>>;

/** A request that is about to be sent. The members need no `this`. */
export interface GuardRequest {
  /** `x-request-id` of the response, and the ID in the journal. */
  readonly requestId: string;
  readonly caller: HookCaller;
  /** The model's ID for clients, after `route`. */
  readonly model: string;
  /**
   * The messages, a new copy with each call. Only this call parses the body.
   *
   * @throws {RouterError} for the client, if they are larger than `maxBytes`, more than 100,000 values, or can be read in two
   *   ways: don't catch it
   */
  readonly messages: () => GuardMessage[];
  /** Aborted when the client disconnects, the time is over, the request ends before, or the router is closed. */
  readonly signal: AbortSignal;
}

/** Refuses a request: the client gets an error in OpenAI's shape. */
export interface GuardRefusal {
  readonly refuse: {
    /** 1 to 64 lower-case letters, digits and `_`, a letter first: stable, as clients branch on it. */
    readonly code: string;
    /** 1 to 1,000 characters, for the client. */
    readonly message: string;
    /** 400 to 499. @default 400 */
    readonly status?: number;
  };
}

/** Sends other messages in place of the client's. */
export interface GuardReplacement {
  /** One or more objects: what they are in JSON takes the place of the client's `messages`. */
  readonly messages: readonly object[];
}

/** Undefined passes the request as it is. */
export type GuardResult = GuardRefusal | GuardReplacement | undefined;

/** Checks a request before credits are held for it. */
export type Guard = (request: GuardRequest) => GuardResult | Promise<GuardResult>;

export interface GuardOptions {
  readonly run: Guard;
  /**
   * Runs the guard beside the request to the provider, with credits held. Nothing of an answer reaches the client before
   * the guard has passed; a refusal cuts the call, and what the provider may bill is charged as if the client had left.
   * Such a guard can't replace messages.
   *
   * @default false: the guard runs before credits are held
   */
  readonly parallel?: boolean;
  /** How long a request waits for it, in ms. @default 5000 */
  readonly timeoutMs?: number;
  /**
   * `refuse` answers 503 `guard_unavailable`; `pass` sends the request as it is. What went wrong goes to `onError` of the
   * hooks. A refusal with an invalid code or message never passes.
   *
   * @default 'refuse'
   */
  readonly onError?: HookFailurePolicy;
  /**
   * Most bytes of messages that `messages()` parses, as that stops the event loop; more are a 413 `request_too_large`.
   *
   * @default 8388608 (8 MiB)
   */
  readonly maxBytes?: number;
}
