import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional?: boolean }>>;
}
interface Workflow {
  readonly on: object;
  readonly permissions?: object;
  readonly concurrency?: { readonly group: string };
  readonly jobs: Readonly<Record<string, Job>>;
}
interface Job {
  readonly permissions?: object;
  readonly steps: readonly { readonly name?: string; readonly run?: string; readonly uses?: string }[];
}

const manifest = JSON.parse(read('package.json')) as Manifest;
const workflows = readdirSync(join(ROOT, '.github/workflows'));
const workflow = (file: string): Workflow => parse(read(`.github/workflows/${file}`)) as Workflow;

describe('package.json', () => {
  it('names dependencies by range, so that an app shares them and gets their patches', () => {
    for (const [name, range] of Object.entries(manifest.dependencies)) {
      expect(range, name).toMatch(/^\^\d+\.\d+\.\d+$/);
    }
  });

  it('pins dev dependencies, so that each clone runs the same tools', () => {
    for (const [name, version] of Object.entries(manifest.devDependencies)) {
      expect(version, name).toMatch(/^(npm:[@\w/-]+@)?\d+\.\d+\.\d+$/);
    }
  });

  it('agrees with the lock file, which names no registry', () => {
    const lock = JSON.parse(read('package-lock.json')) as { packages: Record<string, Manifest> };
    const { dependencies, devDependencies, peerDependenciesMeta } = lock.packages[''] ?? {};
    expect({ dependencies, devDependencies, peerDependenciesMeta }).toEqual({
      dependencies: manifest.dependencies,
      devDependencies: manifest.devDependencies,
      peerDependenciesMeta: manifest.peerDependenciesMeta,
    });
    expect(read('package-lock.json')).not.toContain('"resolved"');
  });
});

describe.each(workflows)('the workflow %s', (file) => {
  const { permissions, concurrency, jobs } = workflow(file);

  it('may read alone, but for jobs that say what else they need', () => {
    expect(permissions).toEqual({ contents: 'read' });
    const more = Object.entries(jobs).filter(([, job]) => job.permissions);
    expect(Object.fromEntries(more.map(([name, job]) => [name, job.permissions]))).toEqual(
      file === 'release.yml'
        ? { publish: { 'id-token': 'write' }, 'github-release': { contents: 'write' } }
        : {},
    );
  });

  it('has one group of runs, of which it ends or waits for others', () => {
    expect(concurrency?.group).toBeDefined();
  });

  it('pins each action to a commit, with the version beside it for people and Dependabot', () => {
    const uses = read(`.github/workflows/${file}`).match(/uses: .*/g) ?? [];
    expect(uses.length).toBeGreaterThan(0);
    for (const each of uses) expect(each).toMatch(/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it('hands no expression to a shell: what another author wrote could be a command', () => {
    const scripts = Object.values(jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []));
    for (const script of scripts) {
      expect(script.replaceAll('${{ matrix.node }}', '')).not.toContain('${{');
    }
  });
});

describe('the release', () => {
  const script = (job: string, name: RegExp): string =>
    workflow('release.yml').jobs[job]?.steps.find((step) => name.test(step.name ?? ''))?.run ?? '';

  it.each([
    ['## 0.1.0 — unreleased', 0],
    ['## [0.1.0] - 2026-11-22', 0],
    ['## 0.1.0-beta.1', 1],
    ['## 10.1.0', 1],
    ['## 0.1', 1],
  ])('takes from the changelog what stands below %s, and fails without it', (heading, status) => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-notes-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(
      join(folder, 'CHANGELOG.md'),
      `# Changelog\n\n## 0.2.0\n\nlater\n\n${heading}\n\n### Added\n\n- this\n\n## 0.0.9\n\nearlier\n`,
    );
    const run = spawnSync('bash', ['-e', '-c', script('pack', /changelog/)], {
      cwd: folder,
      env: { ...process.env, GITHUB_REF_NAME: 'v0.1.0' },
      encoding: 'utf8',
    });
    expect(run.status, run.stderr).toBe(status);
    const notes = readFileSync(join(folder, 'notes.md'), 'utf8');
    expect(notes.trim()).toBe(status === 0 ? '### Added\n\n- this' : '');
  });

  it('is refused to a tag that is another version', () => {
    const status = (tag: string): number | null =>
      spawnSync('bash', ['-e', '-c', script('pack', /tag/)], {
        cwd: ROOT,
        env: { ...process.env, GITHUB_REF_NAME: tag },
      }).status;
    const { version } = JSON.parse(read('package.json')) as { version: string };
    expect(status(`v${version}`)).toBe(0);
    expect(status('v99.0.0')).toBe(1);
  });

  it('publishes with provenance, in a job that runs no code of a dependency', () => {
    const { steps = [] } = workflow('release.yml').jobs['publish'] ?? {};
    expect(steps.flatMap(({ run }) => run ?? [])).toEqual([
      'npm publish --provenance --access public ./chat-completions-router-*.tgz',
    ]);
  });
});

describe('the check of subjects', () => {
  const [step] = (workflow('ci.yml').jobs['subjects']?.steps ?? []).filter(({ run }) => run);
  const [, pattern = '(?!)'] = /grep -vP '([^']+)'/.exec(step?.run ?? '') ?? [];

  it.each([
    'fix(models): no body rule sets what is priced by what it says',
    'feat(admin): valibot in place of zod; dependencies by range',
    'chore(deps-dev): bump vitest from 5.1.0 to 5.1.1',
    `fix(ledger): ${'x'.repeat(59)}`,
  ])('allows %s', (subject) => {
    expect(subject).toMatch(new RegExp(pattern));
  });

  it.each([
    'Lay the ground: manifest, compiler, formatter',
    'fix: what a review found',
    'fix(models):no blank',
    'fix(models): ',
    'wip(models): half of it',
    'fix(Models): an area as it is not written',
    `fix(ledger): ${'x'.repeat(60)}`,
  ])('refuses %s', (subject) => {
    expect(subject).not.toMatch(new RegExp(pattern));
  });

  it('fails where one is wrong, and where there is nothing to compare with', () => {
    const folder = mkdtempSync(join(tmpdir(), 'ccr-subjects-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const git = (...args: string[]): string =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], {
        cwd: folder,
        encoding: 'utf8',
      }).trim();
    const status = (base: string): number | null =>
      spawnSync('bash', ['-e', '-c', step?.run ?? 'exit 9'], {
        cwd: folder,
        env: { ...process.env, BASE: base, RUNNER_TEMP: folder },
      }).status;
    git('init', '-q');
    git('commit', '-q', '--allow-empty', '-m', 'whatever was before');
    const base = git('rev-parse', 'HEAD');
    git('commit', '-q', '--allow-empty', '-m', 'fix(ledger): one');
    expect(status(base)).toBe(0);
    git('commit', '-q', '--allow-empty', '-m', 'two');
    expect(status(base)).toBe(1);
    expect(status('0'.repeat(40))).toBe(128);
  });
});

it.each([
  '.github/dependabot.yml',
  ...readdirSync(join(ROOT, '.github/ISSUE_TEMPLATE')).map((file) => `.github/ISSUE_TEMPLATE/${file}`),
])('%s is YAML, and each of its fields has an id of its own', (file) => {
  const { body = [] } = parse(read(file)) as { body?: { type: string; id?: string; attributes: object }[] };
  const ids = body.flatMap(({ id }) => id ?? []);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { type, attributes } of body) {
    expect(['markdown', 'textarea', 'input', 'dropdown', 'checkboxes']).toContain(type);
    expect(attributes).toHaveProperty(type === 'markdown' ? 'value' : 'label');
  }
});
