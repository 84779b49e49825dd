/** The steps of a histogram: each is larger by the same factor, the first one has everything below, the last one all above. */
export interface HistogramSteps {
  /** The upper end of the first step. */
  readonly first: number;
  readonly perDoubling: number;
  readonly number: number;
}

/** How often values occurred, in a memory of fixed size. */
export class Histogram {
  readonly #steps: HistogramSteps;
  readonly #times: Uint32Array;
  #total = 0;

  constructor(steps: HistogramSteps) {
    this.#steps = steps;
    this.#times = new Uint32Array(steps.number);
  }

  /** Number of values. */
  get total(): number {
    return this.#total;
  }

  count(value: number): void {
    this.#countAt(this.#stepOf(value), 1);
  }

  /** @param others - with the same steps */
  add(others: Histogram): void {
    for (const [step, times] of others.#times.entries()) this.#countAt(step, times);
  }

  clear(): void {
    this.#times.fill(0);
    this.#total = 0;
  }

  /**
   * The value that this share of all values is not above, rounded up to the end of its step; undefined without values.
   *
   * @param share - above 0, to 1
   */
  percentile(share: number): number | undefined {
    let seen = 0;
    for (const [step, times] of this.#times.entries()) {
      seen += times;
      if (seen > 0 && seen >= this.#total * share) return this.#endOf(step);
    }
    return undefined;
  }

  #countAt(step: number, times: number): void {
    this.#times[step] = (this.#times[step] ?? 0) + times;
    this.#total += times;
  }

  #stepOf(value: number): number {
    const { first, perDoubling, number } = this.#steps;
    if (value <= first) return 0;
    return Math.min(Math.ceil(Math.log2(value / first) * perDoubling), number - 1);
  }

  #endOf(step: number): number {
    return Math.round(this.#steps.first * 2 ** (step / this.#steps.perDoubling));
  }
}
