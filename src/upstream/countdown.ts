import type { LimitWord, WordState } from '../ledger/contract/fleet-view.ts';

/**
 * What a provider says is left of one limit, counted down by what was sent since: by this process, and by others as far as it
 * heard of them. A **number** is how much was sent before and with a request: an answer speaks of what was sent up to its own.
 */
export class Countdown {
  /** The whole limit; Infinity where the provider doesn't name it. */
  limit: number = Infinity;
  /** In all. */
  #sent = 0;
  /** Of the request that the newest word is about. */
  #number = 0;
  /** That may be sent before the limit resets, since the beginning. */
  #most = Infinity;
  /** When the limit resets. */
  #until = 0;
  /** Sent by this process since its last report. */
  #unreported = 0;
  /** In its report that is under way. */
  #reported = 0;
  /** All that the fleet sent, by its last state; undefined before the first. */
  #ofFleet: number | undefined;
  /** The number of the word that the fleet knows, and of the one that is being reported. */
  #known: number | undefined;
  #telling: number | undefined;
  /** This process's part of what is left, by the last state of the fleet. */
  #granted = Infinity;

  /** Returns the request's number. */
  send(amount: number): number {
    this.#sent += amount;
    this.#unreported += amount;
    this.#granted -= amount;
    return this.#sent;
  }

  /** The request of this number is over. What a word has counted stays as the provider counts it. @param more - than its estimate */
  correct(number: number, more: number): void {
    if (number > this.#number) this.#most -= more;
  }

  /** The provider said this when it had seen the request of this number. The word about a later request counts. */
  said(number: number, left: number, until: number, limit: number = Infinity): void {
    if (number < this.#number) return;
    this.limit = limit;
    this.#number = number;
    this.#most = number + left;
    this.#until = until;
  }

  /** Infinity if no word holds. */
  leftAt(now: number): number {
    return this.#until > now ? this.#most - this.#sent : Infinity;
  }

  /** Until when it has less than this left; 0 if it has as much. */
  lacksUntil(amount: number, now: number): number {
    return this.leftAt(now) < amount ? this.#until : 0;
  }

  /** Whether this is more than the process's part of what is left. */
  exceedsGrant(amount: number, now: number): boolean {
    return this.#until > now && this.#granted < amount;
  }

  /** What this process sent since its last report. */
  get reported(): number {
    return this.#reported;
  }

  /** A new report begins. */
  beginReport(): void {
    this.#reported = this.#unreported;
    this.#unreported = 0;
  }

  /** What the fleet doesn't know of the provider's word yet. */
  newWord(now: number): LimitWord | undefined {
    if (this.#number === this.#known || this.#until <= now) return undefined;
    this.#telling = this.#number;
    const forMs = Math.ceil(this.#until - now);
    const ofFleet = this.#ofFleet;
    if (ofFleet === undefined)
      return { left: this.#most - this.#sent + this.#unreported, at: undefined, forMs };
    const before = this.#sent - this.#unreported - this.#reported;
    return { left: this.#most - this.#number, at: ofFleet + this.#number - before, forMs };
  }

  hear({ sent, left, at, forMs, granted }: WordState, now: number): void {
    // What others sent counts as sent after each word that this process has of its own.
    if (this.#ofFleet !== undefined) this.#sent += sent - this.#ofFleet - this.#reported;
    this.#ofFleet = sent;
    this.#reported = 0;
    this.#known = this.#telling ?? this.#known;
    this.#telling = undefined;
    const number = this.#sent - this.#unreported - (sent - at);
    if (forMs > 0 && (number > this.#number || this.#until <= now)) {
      this.#number = number;
      this.#most = number + left;
      this.#until = now + forMs;
      this.#known = number;
    }
    this.#granted = forMs > 0 ? granted - this.#unreported : Infinity;
  }

  /** The fleet knows nothing of what this process reported. */
  forget(): void {
    this.#ofFleet = undefined;
    this.#reported = 0;
    this.#unreported = 0;
    this.#known = undefined;
    this.#telling = undefined;
  }
}
