import { randomInt } from 'node:crypto';

/** Largest step back of the clock during which ids keep their time. Stores accept ids up to 5 minutes ahead. */
const MAX_WAIT_MS = 60_000;

/**
 * Makes request ids: 9 base-36 digits of the ms clock, 4 of a gateway id, 6 of
 * a counter. They sort by time, and need no coordination.
 *
 * Within one `RequestIds` every id is greater than the one before, unless the
 * clock steps back by more than a minute. The counter starts at random and is
 * never reset, so that ids stay unique then, and between two gateways that
 * happen to have the same gateway id.
 */
export class RequestIds {
  readonly #now: () => number;
  readonly #gateway: string;
  #time = 0;
  #counter: number;

  /** @param draw - returns a random integer from 0 up to, but excluding, its argument */
  constructor(now: () => number = Date.now, draw: (below: number) => number = (below) => randomInt(below)) {
    this.#now = now;
    this.#gateway = digits(draw(36 ** GATEWAY_DIGITS), GATEWAY_DIGITS);
    this.#counter = draw(COUNTS);
  }

  next(): string {
    const now = this.#now();
    if (now > this.#time || now < this.#time - MAX_WAIT_MS) this.#time = now;
    this.#counter += 1;
    if (this.#counter === COUNTS) {
      this.#counter = 0;
      this.#time += 1;
    }
    return digits(this.#time, TIME_DIGITS) + this.#gateway + digits(this.#counter, COUNTER_DIGITS);
  }
}

export function isRequestId(id: unknown): boolean {
  return typeof id === 'string' && SHAPE.test(id);
}

/**
 * The time at which a request id was made, in ms.
 *
 * @throws {TypeError} when the text is not a request id
 */
export function requestTime(id: string): number {
  if (id === lastId) return lastTime;
  if (!isRequestId(id)) {
    throw new TypeError(`requestId must be 19 characters of 0-9 a-z, got ${JSON.stringify(id)}`);
  }
  lastId = id;
  lastTime = Number.parseInt(id.slice(0, TIME_DIGITS), 36);
  return lastTime;
}

/** The id that was read last: one command of a store asks for the time of its id several times. */
let lastId = '';
let lastTime = 0;

const TIME_DIGITS = 9;
const GATEWAY_DIGITS = 4;
const COUNTER_DIGITS = 6;
const COUNTS = 36 ** COUNTER_DIGITS;
const SHAPE = /^[0-9a-z]{19}$/;

function digits(value: number, count: number): string {
  return value.toString(36).padStart(count, '0');
}
