/** A sample of the text format: one line. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface MetricFamily {
  readonly type: string;
  readonly help: string;
  readonly samples: Sample[];
}

/**
 * Reads Prometheus' text format and refuses whatever its rules forbid: samples outside of their family, two of the
 * same labels, names and escapes that can't be, counters that can't be one, buckets that don't add up.
 */
export function parsePrometheus(text: string): Map<string, MetricFamily> {
  const families = new Map<string, MetricFamily>();
  const seen = new Set<string>();
  let help: readonly [name: string, text: string] | undefined;
  let family: { readonly name: string; readonly type: string; readonly samples: Sample[] } | undefined;
  if (!text.endsWith('\n')) fail('the last line has no end', text.slice(-50));
  for (const line of text.slice(0, -1).split('\n')) {
    const [, helpName, helpText] = /^# HELP ([a-zA-Z_:][\w:]*) (.*)$/.exec(line) ?? [];
    const [, typeName, type] = /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram)$/.exec(line) ?? [];
    if (helpName !== undefined && helpText) help = [helpName, helpText];
    else if (typeName !== undefined && type !== undefined) {
      if (help?.[0] !== typeName) fail('a type without help', line);
      if (families.has(typeName)) fail('a family twice', line);
      if (type === 'counter' && !typeName.endsWith('_total')) fail('a counter that is no _total', line);
      family = { name: typeName, type, samples: [] };
      families.set(typeName, { type, help: help?.[1] ?? '', samples: family.samples });
    } else {
      const sample = parseSample(line);
      const suffix = sample.name.slice(family?.name.length);
      const suffixes = family?.type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
      if (!family || !sample.name.startsWith(family.name) || !suffixes.includes(suffix)) {
        fail('a sample outside of its family', line);
      }
      const series = line.slice(0, line.lastIndexOf(' '));
      if (seen.has(series)) fail('a series twice', line);
      seen.add(series);
      family?.samples.push(sample);
    }
  }
  for (const { type, samples } of families.values()) if (type === 'histogram') checkHistogram(samples);
  return families;
}

function parseSample(line: string): Sample {
  const [, name = '', labelText = '', value = ''] =
    /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (-?[\d.]+(?:e[+-]?\d+)?|\+Inf|NaN)$/.exec(line) ??
    fail('no sample', line);
  const labels: Record<string, string> = {};
  let rest = labelText;
  while (rest !== '') {
    const [all, key = '', text = ''] =
      /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,(?=.)|$)/.exec(rest) ??
      fail('a label that is none', line);
    if (key in labels) fail('a label twice', line);
    labels[key] = text.replaceAll(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
    rest = rest.slice(all.length);
  }
  return { name, labels, value: value === '+Inf' ? Infinity : Number(value) };
}

function checkHistogram(samples: readonly Sample[]): void {
  const bySeries = Map.groupBy(samples, ({ labels }) => {
    const { le: _bound, ...others } = labels;
    return JSON.stringify(others);
  });
  for (const [series, group] of bySeries) {
    const buckets = group.filter(({ name }) => name.endsWith('_bucket'));
    const count = group.find(({ name }) => name.endsWith('_count'))?.value;
    if (!group.some(({ name }) => name.endsWith('_sum'))) fail('a histogram without a sum', series);
    if (buckets.at(-1)?.labels['le'] !== '+Inf') fail('a histogram without a last bucket', series);
    if (buckets.at(-1)?.value !== count) fail('a last bucket that is not the count', series);
    for (const [index, { labels, value }] of buckets.entries()) {
      const before = buckets[index - 1];
      if (!before) continue;
      if (value < before.value) fail('buckets that are not cumulative', series);
      const [lower, upper] = [before.labels['le'], labels['le']].map((le) =>
        Number(le?.replace('+Inf', 'Infinity')),
      );
      if (!((lower ?? 0) < (upper ?? 0))) fail('buckets that do not ascend', series);
    }
  }
}

function fail(fault: string, where: string): never {
  throw new Error(`${fault}: ${where}`);
}

/** The value of one series, by some of its labels; undefined where there is none, an error where there are several. */
export function valueOf(
  families: ReadonlyMap<string, MetricFamily>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const base = name.replace(/_(bucket|sum|count)$/, '');
  const samples = (families.get(name) ?? families.get(base))?.samples ?? [];
  const matching = samples.filter(
    (sample) =>
      sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  if (matching.length > 1) throw new Error(`${matching.length} series of ${name} match`);
  return matching[0]?.value;
}
