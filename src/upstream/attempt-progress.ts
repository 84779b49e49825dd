import type { Target } from '../catalog/model.ts';
import type { DetachedRead } from '../http/detached-reads.ts';
import type { Abortable } from './running-attempts.ts';

/** Receives the steps of a request while its targets are tried. */
export interface AttemptProgress {
  /** A target is tried next. Returns the detached read of its answer, for a client that disconnects. */
  asking(target: Target): DetachedRead;
  /** An attempt was started; `running` can abort it until the last byte of its answer. */
  attempting(running: Abortable): void;
  /** The request head was written to a connected socket: the provider may bill the request. */
  dispatched(): void;
  /** The provider rejected it: nothing is owed. */
  rejected(): void;
  /** There is no answer for the client, though a head may have arrived: nothing is owed. */
  unanswered(error: Error): void;
}
