/** Label values by name. */
export type Labels<Name extends string> = Readonly<Record<Name, string>>;

/** A metric in the text format. */
interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly lines: () => Iterable<string>;
}

/** Value of each label once a metric has its maximum number of series. */
const OTHER = 'other';

/**
 * Metrics, and their text for Prometheus.
 *
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export class Registry {
  readonly #families: Family[] = [];
  readonly #maxSeries: number;

  /** @param maxSeries - per metric; the rest is counted in a series whose labels are all `other` */
  constructor(maxSeries: number) {
    this.#maxSeries = maxSeries;
  }

  counter<Name extends string>(name: string, help: string, labels: readonly Name[]): Counter<Name> {
    return this.#add('counter', name, help, new Counter(name, labels, this.#maxSeries));
  }

  /** A gauge that is read on each scrape. */
  gauge<Name extends string>(
    name: string,
    help: string,
    labels: readonly Name[],
    read: () => Iterable<readonly [Labels<Name>, number]>,
  ): void {
    const lines = function* (): Iterable<string> {
      for (const [given, value] of read())
        yield line(name, labelText(labels, valuesOf(labels, given)), value);
    };
    this.#families.push({ type: 'gauge', name, help, lines });
  }

  histogram<Name extends string>(
    name: string,
    help: string,
    labels: readonly Name[],
    buckets: readonly number[],
  ): Histogram<Name> {
    return this.#add('histogram', name, help, new Histogram(name, labels, this.#maxSeries, buckets));
  }

  /** All metrics in the text format. */
  text(): string {
    let text = '';
    for (const { name, help, type, lines } of this.#families) {
      text += `# HELP ${name} ${escape(help)}\n# TYPE ${name} ${type}\n`;
      for (const each of lines()) text += each;
    }
    return text;
  }

  #add<M extends { lines(): Iterable<string> }>(
    type: Family['type'],
    name: string,
    help: string,
    metric: M,
  ): M {
    this.#families.push({ type, name, help, lines: () => metric.lines() });
    return metric;
  }
}

/** The series of a metric, by the values of its labels. */
class SeriesMap<Name extends string, S> {
  readonly #names: readonly Name[];
  readonly #max: number;
  readonly #create: () => S;
  readonly #byKey = new Map<string, { readonly labels: string; readonly series: S }>();

  constructor(names: readonly Name[], max: number, create: () => S) {
    this.#names = names;
    this.#max = max;
    this.#create = create;
    // Without labels there is only one series: it is 0 from the start.
    if (names.length === 0) this.#find([]);
  }

  of(labels: Labels<Name>): S {
    return this.#find(valuesOf(this.#names, labels));
  }

  values(): Iterable<{ readonly labels: string; readonly series: S }> {
    return this.#byKey.values();
  }

  #find(values: readonly string[]): S {
    const key = values.join('\u0000');
    const known = this.#byKey.get(key);
    if (known) return known.series;
    if (this.#byKey.size >= this.#max - 1 && values.some((value) => value !== OTHER)) {
      return this.#find(values.map(() => OTHER));
    }
    const series = this.#create();
    this.#byKey.set(key, { labels: labelText(this.#names, values), series });
    return series;
  }
}

/** A value that only grows. */
export class Counter<Name extends string> {
  readonly #name: string;
  readonly #series: SeriesMap<Name, { value: number }>;

  constructor(name: string, labels: readonly Name[], maxSeries: number) {
    this.#name = name;
    this.#series = new SeriesMap(labels, maxSeries, () => ({ value: 0 }));
  }

  add(amount: number, labels: Labels<Name>): void {
    this.#series.of(labels).value += amount;
  }

  *lines(): Iterable<string> {
    for (const { labels, series } of this.#series.values()) yield line(this.#name, labels, series.value);
  }
}

/** Counts values by their size. */
export class Histogram<Name extends string> {
  readonly #name: string;
  readonly #buckets: readonly number[];
  readonly #series: SeriesMap<Name, { readonly counts: number[]; count: number; sum: number }>;

  /** @param buckets - upper bounds, ascending; an unbounded one follows */
  constructor(name: string, labels: readonly Name[], maxSeries: number, buckets: readonly number[]) {
    this.#name = name;
    this.#buckets = buckets;
    const create = (): { counts: number[]; count: number; sum: number } => ({
      counts: buckets.map(() => 0),
      count: 0,
      sum: 0,
    });
    this.#series = new SeriesMap(labels, maxSeries, create);
  }

  observe(value: number, labels: Labels<Name>): void {
    const series = this.#series.of(labels);
    const index = this.#buckets.findIndex((bound) => value <= bound);
    if (index !== -1) series.counts[index] = (series.counts[index] ?? 0) + 1;
    series.count += 1;
    series.sum += value;
  }

  *lines(): Iterable<string> {
    for (const { labels, series } of this.#series.values()) {
      const before = labels === '' ? '' : `${labels},`;
      let below = 0;
      for (const [index, bound] of this.#buckets.entries()) {
        below += series.counts[index] ?? 0;
        yield line(`${this.#name}_bucket`, `${before}le="${bound}"`, below);
      }
      yield line(`${this.#name}_bucket`, `${before}le="+Inf"`, series.count);
      yield line(`${this.#name}_sum`, labels, series.sum);
      yield line(`${this.#name}_count`, labels, series.count);
    }
  }
}

function valuesOf<Name extends string>(names: readonly Name[], labels: Labels<Name>): string[] {
  return names.map((name) => labels[name]);
}

function labelText(names: readonly string[], values: readonly string[]): string {
  return names.map((name, i) => `${name}="${escape(values[i] ?? '').replaceAll('"', '\\"')}"`).join();
}

function line(name: string, labels: string, value: number): string {
  return labels === '' ? `${name} ${value}\n` : `${name}{${labels}} ${value}\n`;
}

function escape(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}
