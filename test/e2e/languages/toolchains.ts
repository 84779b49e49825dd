import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Where the programs are: a folder for each language. */
export const HERE = new URL('.', import.meta.url).pathname;
const CACHE = new URL('../../../.cache/e2e/', import.meta.url).pathname;

/** What other languages' tools need to know: where their registries and caches are. */
const ENV: NodeJS.ProcessEnv = {
  ...process.env,
  GOMODCACHE: join(CACHE, 'go/modules'),
  GOCACHE: join(CACHE, 'go/build'),
  GOFLAGS: '-modcacherw -buildvcs=false',
  CARGO_TARGET_DIR: join(CACHE, 'rust'),
};
const BUILD_MS = 580_000;

/** A language's tools, and how its programs are run. */
export interface Toolchain {
  /** What the machine lacks for it; undefined where there is all. */
  readonly missing: string | undefined;
  /** Installs the libraries, and builds the program of this folder where it is one that is built. */
  readonly prepare: () => Promise<void>;
  /** Runs the program of this folder. */
  readonly command: readonly [string, ...string[]];
  /** Where `command` is run. */
  readonly cwd: string;
  /** Writes another program, which uses the same libraries, and gives the command that runs it. */
  readonly program: (source: string) => Promise<readonly [string, ...string[]]>;
}

/**
 * A virtual environment with what `python/requirements-NAME.txt` names, and the program that uses it.
 *
 * @param file - the program, in `python/`
 */
export function python(name: string, file: string): Toolchain {
  const folder = join(CACHE, name);
  const requirements = join(HERE, `python/requirements-${name}.txt`);
  const interpreter = join(folder, 'bin/python');
  return {
    missing: lacking(
      'python3',
      ['-c', 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))'],
      '3.10',
    ),
    prepare: () =>
      unlessDone(name, readFileSync(requirements, 'utf8'), async () => {
        rmSync(folder, { recursive: true, force: true });
        await build('python3', ['-m', 'venv', folder], HERE);
        // The list is complete: what its packages say that they need is not asked for.
        const options = ['-q', '--no-deps', '--no-compile', '-r', requirements];
        await build(interpreter, ['-m', 'pip', 'install', ...options], HERE);
      }),
    command: [interpreter, file],
    cwd: join(HERE, 'python'),
    program: async (source) => [interpreter, write(`${name}-program`, 'program.py', source)],
  };
}

/** A Go module, built without optimization: that halves the time. */
export function go(): Toolchain {
  const flags = '-gcflags=all=-N -l';
  const binary = join(CACHE, 'go/client');
  return {
    missing: lacking('go', ['version'], '1.26', /go1\.(2[6-9]|[3-9]\d)/),
    prepare: () => build('go', ['build', flags, '-o', binary, '.'], join(HERE, 'go')),
    command: [binary],
    cwd: HERE,
    program: async (source) => {
      const file = write('go-program', 'main.go', source);
      for (const name of ['go.mod', 'go.sum']) cpSync(join(HERE, 'go', name), join(file, '..', name));
      const other = join(CACHE, 'go/program');
      await build('go', ['build', flags, '-o', other, '.'], join(file, '..'));
      return [other];
    },
  };
}

/** A Java program of one file, which `java` compiles as it runs it; Maven brings its libraries. */
export function java(): Toolchain {
  const classPath = join(CACHE, 'java-class-path.txt');
  const options = join(CACHE, 'java-options.txt');
  const project = readFileSync(join(HERE, 'java/pom.xml'), 'utf8');
  return {
    missing:
      lacking('java', ['-version'], '17', /version "(1[7-9]|[2-9]\d)/) ?? lacking('mvn', ['-version'], '3'),
    prepare: () =>
      unlessDone('java', project, async () => {
        const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath';
        const settings = [`-Dmaven.repo.local=${join(CACHE, 'maven')}`, `-Dmdep.outputFile=${classPath}`];
        await build('mvn', ['-q', '-B', ...settings, plugin], join(HERE, 'java'));
        writeFileSync(options, `-cp "${readFileSync(classPath, 'utf8')}"`);
      }),
    command: ['java', `@${options}`, join(HERE, 'java/Client.java')],
    cwd: HERE,
    program: async (source) => ['java', `@${options}`, write('java-program', 'Program.java', source)],
  };
}

/** A Rust crate, built without optimization. */
export function rust(): Toolchain {
  return {
    missing: lacking('cargo', ['--version'], '1.85', /cargo 1\.(8[5-9]|9\d|\d{3})/),
    prepare: () => build('cargo', ['build', '-q', '--locked'], join(HERE, 'rust')),
    command: [join(CACHE, 'rust/debug/clients')],
    cwd: HERE,
    program: async (source) => {
      const folder = join(CACHE, 'rust-program');
      write('rust-program/src', 'main.rs', source);
      for (const name of ['Cargo.toml', 'Cargo.lock']) {
        const text = readFileSync(join(HERE, 'rust', name), 'utf8');
        writeFileSync(join(folder, name), text.replace('name = "clients"', 'name = "program"'));
      }
      await build('cargo', ['build', '-q', '--locked'], folder);
      return [join(CACHE, 'rust/debug/program')];
    },
  };
}

/** Does it, unless it was done before for the same list of libraries. */
async function unlessDone(name: string, list: string, work: () => Promise<void>): Promise<void> {
  const marker = join(CACHE, `${name}-installed.txt`);
  if (existsSync(marker) && readFileSync(marker, 'utf8') === list) return;
  mkdirSync(CACHE, { recursive: true });
  await work();
  writeFileSync(marker, list);
}

/** @returns what to say where the tool isn't there, or is older */
function lacking(tool: string, args: readonly string[], since: string, version = /(?:)/): string | undefined {
  const { status, stdout, stderr } = spawnSync(tool, args, { encoding: 'utf8', env: ENV });
  return status === 0 && version.test(stdout + stderr)
    ? undefined
    : `${tool} ${since} or newer is not installed`;
}

/** @throws with what the tool printed */
async function build(tool: string, args: readonly string[], cwd: string): Promise<void> {
  await run(tool, args, { cwd, env: ENV, timeout: BUILD_MS, maxBuffer: 64 << 20 });
}

function write(folder: string, file: string, source: string): string {
  const path = join(CACHE, folder, file);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, source);
  return path;
}
