import type { Target } from '../catalog/model.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import type { Abortable } from './running-attempts.ts';

/** What is recorded of a request while targets are asked for its answer. */
export interface AttemptProgress {
  /** A target is asked next. Returns what becomes of its answer when the client disconnects. */
  asking(target: Target): DetachedRead;
  /** An attempt runs; `running` can abort it, up to the last byte of its answer. */
  attempting(running: Abortable): void;
  /** The head of its request was written to a connected socket: the provider may bill it. */
  dispatched(): void;
  /** The provider rejected it: nothing is owed. */
  rejected(): void;
  /** It has no answer that the client may have, though its head may have come: nothing is owed. */
  unanswered(error: Error): void;
}
