import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { PRESETS } from '../../../src/catalog/presets.ts';

const ROOT = new URL('../../..', import.meta.url).pathname;
const README = readFileSync(`${ROOT}README.md`, 'utf8');

describe('the README', () => {
  it('names every code that an error can have, and no other', () => {
    const files = readdirSync(`${ROOT}src/errors`);
    const source = files.map((file) => readFileSync(`${ROOT}src/errors/${file}`, 'utf8')).join('\n');
    const declared = [...source.matchAll(/readonly code\b(?: = |:)([^;]*);/g)]
      .flatMap(([, codes = '']) => [...codes.matchAll(/'([a-z_]+)'/g)])
      .map(([, code = '']) => code);
    expect(declared.length).toBeGreaterThan(25);
    const page = readFileSync(`${ROOT}docs/errors.md`, 'utf8');
    // A row a code, with an anchor that other pages link to.
    const rows = [...page.matchAll(/^\| \d{3}[^|]*\| <a id="([a-z_]+)"><\/a>`([a-z_]+)` +\|/gm)];
    const documented = rows.map(([, , code = '']) => code);
    expect(rows.map(([, anchor]) => anchor)).toEqual(documented);
    expect(documented.toSorted()).toEqual([...new Set(declared)].toSorted());
  });

  it('says how many presets there are', () => {
    expect(README).toContain(`one of ${Object.keys(PRESETS).length} presets`);
  });

  it('names only commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
      scripts: Record<string, string>;
    };
    for (const [, script = ''] of README.matchAll(/npm run ([a-z]+)/g))
      expect(scripts).toHaveProperty(script);
  });
});

describe('the docs', () => {
  const optionsSource = readdirSync(`${ROOT}src/options`)
    .map((file) => readFileSync(`${ROOT}src/options/${file}`, 'utf8'))
    .join('\n');

  it.each([
    ['ChatCompletionsRouterOptions', 'options.md', '## The router', '## Models'],
    ['TimeoutOptions', 'options.md', '### Timeouts', '### Retries'],
    ['RetryOptions', 'options.md', '### Retries', '### Circuit breaker'],
    ['HealthCheckOptions', 'options.md', '### Circuit breaker', '### Hooks'],
    ['ModelOptions', 'options.md', '## Models', '### Targets'],
    ['TargetOptions', 'options.md', '### Targets', '## Providers'],
    ['ServerOptions', 'options.md', '## Standalone server', '## Reload'],
    ['ProviderOptions', 'providers.md', '## Provider options', '## Presets'],
  ])('have a row for each of %s', (name, page, from, to) => {
    const [, body = ''] = new RegExp(`interface ${name} [^{]*\\{(.*?)^\\}`, 'ms').exec(optionsSource) ?? [];
    const declared = [...body.matchAll(/^  readonly (\w+)/gm)].map(([, member]) => member);
    expect(declared.length).toBeGreaterThan(2);
    const source = readFileSync(`${ROOT}docs/${page}`, 'utf8');
    const section = source.slice(source.indexOf(`\n${from}`), source.indexOf(`\n${to}`));
    // A row, or a table of its own: "`retries` of the router: …".
    const cells = [...section.matchAll(/^\| (`[^|]+`) +\||^(`\w+`) of the router/gm)];
    const told = cells.flatMap(([cell]) => [...cell.matchAll(/`(\w+)`/g)].map(([, option]) => option));
    expect(declared.filter((option) => !told.includes(option))).toEqual([]);
  });

  const operating = readFileSync(`${ROOT}docs/operating.md`, 'utf8');
  const commandLine = readFileSync(`${ROOT}docs/command-line.md`, 'utf8');

  it('tell of every event, and of no other', () => {
    const source = readFileSync(`${ROOT}src/ledger/contract/events.ts`, 'utf8');
    const declared = [...source.matchAll(/readonly type: '([a-z_]+)'/g)].map(([, type]) => type);
    const table = operating.slice(operating.indexOf('## Events'), operating.indexOf('## An account'));
    const told = [...table.matchAll(/^\| `([a-z_]+)`/gm)].map(([, type]) => type);
    expect(new Set(told)).toEqual(new Set(declared));
    expect(declared.length).toBeGreaterThan(10);
  });

  it('mark the events that go to stderr', () => {
    const source = readFileSync(`${ROOT}src/observability/hook-runner.ts`, 'utf8');
    const [, alarms = ''] = /const ALARMS[^=]*= \[([^\]]*)\]/.exec(source) ?? [];
    const logged = [...alarms.matchAll(/'([a-z_]+)'/g)].map(([, type]) => type);
    const marked = [...operating.matchAll(/^\| `([a-z_]+)` ●/gm)].map(([, type]) => type);
    expect(new Set(marked)).toEqual(new Set(logged));
    expect(logged.length).toBeGreaterThan(0);
  });

  it('tell of every hook and of every field of a response and of content, and of no other', () => {
    const source = readFileSync(`${ROOT}src/observability/hooks.ts`, 'utf8');
    const observability = readFileSync(`${ROOT}docs/observability.md`, 'utf8');
    const declaredIn = (...names: string[]): string[] =>
      names.flatMap((name) => {
        const [, body = ''] = new RegExp(`interface ${name} [^{]*\\{(.*?)^\\}`, 'ms').exec(source) ?? [];
        return [...body.matchAll(/^  readonly (\w+)/gm)].map(([, member = '']) => member);
      });
    const toldBelow = (heading: string): string[] => {
      const rows = observability.slice(observability.indexOf(heading)).split('\n\n', 1)[0] ?? '';
      return rows
        .split('\n')
        .slice(2)
        .flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name));
    };
    expect(toldBelow('| hook ').sort()).toEqual(declaredIn('Hooks').sort());
    expect(toldBelow('| field ').sort()).toEqual(declaredIn('RequestStarted', 'ResponseEnded').sort());
    expect(toldBelow('| of `RecordedContent`').sort()).toEqual(declaredIn('RecordedContent').sort());
  });

  it('show every command of the CLI, and no other', () => {
    const cli = readdirSync(`${ROOT}src/cli/commands`).map((name) =>
      readFileSync(`${ROOT}src/cli/commands/${name}`, 'utf8'),
    );
    const names = cli.flatMap((source) =>
      [...source.matchAll(/^\s*name: '([a-z ]+)',\n\s*summary:/gm)].map(([, name]) => name),
    );
    const shown = [
      ...commandLine.matchAll(
        /^\$ npx chat-completions-router ((?:credits|keys|requests|sessions) \w+|accounts (?:get|update)|providers (?:eject|readmit|weight)|\w+)/gm,
      ),
    ].map(([, name]) => name);
    expect(new Set(shown)).toEqual(new Set(names));
  });
});
