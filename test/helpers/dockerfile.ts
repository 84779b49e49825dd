import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';

/** What a Dockerfile's last stage would be, as a folder: no container, the machine's own Node and user. */
export interface BuiltImage {
  /** What stands for `/`. */
  readonly root: string;
  readonly workdir: string;
  readonly env: Readonly<Record<string, string>>;
  readonly command: readonly string[];
  readonly healthcheck: readonly string[];
}

const INSTRUCTIONS = [
  'FROM',
  'WORKDIR',
  'COPY',
  'RUN',
  'ENV',
  'USER',
  'VOLUME',
  'EXPOSE',
  'HEALTHCHECK',
  'CMD',
];

/** The instructions of a Dockerfile. @throws an Error for one that isn't known */
export function parseDockerfile(source: string): readonly (readonly [name: string, rest: string])[] {
  return source
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name = '', rest = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
      if (!INSTRUCTIONS.includes(name)) throw new Error(`Not an instruction: ${line}`);
      return [name, rest] as const;
    });
}

/**
 * Does what the instructions say, in folders.
 *
 * @param context - the folder that is built
 * @param into - where the stages are made
 */
export function runDockerfile(source: string, context: string, into: string): BuiltImage {
  const stages = new Map<string, string>();
  let root = '';
  let workdir = '/';
  let env: Record<string, string> = {};
  let command: string[] = [];
  let healthcheck: string[] = [];
  const inside = (path: string): string => join(root, path.startsWith('/') ? path : join(workdir, path));
  for (const [name, rest] of parseDockerfile(source)) {
    const words = rest.split(' ');
    if (name === 'FROM') {
      const [, stage = 'last'] = / AS (\w+)$/.exec(rest) ?? [];
      root = join(into, stage);
      mkdirSync(root, { recursive: true });
      stages.set(stage, root);
      workdir = '/';
      env = {};
    } else if (name === 'WORKDIR') {
      workdir = rest;
      mkdirSync(inside('.'), { recursive: true });
    } else if (name === 'ENV') {
      for (const pair of words) env[pair.slice(0, pair.indexOf('='))] = pair.slice(pair.indexOf('=') + 1);
    } else if (name === 'COPY') {
      const [first = ''] = words;
      const stage = first.startsWith('--from=') ? stages.get(first.slice(7)) : undefined;
      const paths = stage === undefined ? words : words.slice(1);
      const to = inside(paths.at(-1) ?? '');
      for (const path of paths.slice(0, -1)) copy(join(stage ?? context, path), to, paths.at(-1) ?? '');
    } else if (name === 'RUN') {
      // Folders of the image are in `root`; its user is the one who runs this.
      const script = rest
        .replaceAll(/(?<= )\/(?=data)/g, `${root}/`)
        .replaceAll(' node:node ', ` ${owner()} `);
      execFileSync('sh', ['-c', script], {
        cwd: inside('.'),
        env: { ...process.env, ...env },
        stdio: 'pipe',
      });
    } else if (name === 'CMD') {
      command = JSON.parse(rest) as string[];
    } else if (name === 'HEALTHCHECK') {
      healthcheck = JSON.parse(rest.slice(rest.indexOf('CMD ') + 4)) as string[];
    }
  }
  return { root, workdir: inside('.'), env, command, healthcheck };
}

/** As `COPY`: the content of a folder, or a file into a folder. */
function copy(from: string, to: string, written: string): void {
  if (!existsSync(from)) throw new Error(`COPY: there is no ${from}`);
  const isFile = !written.endsWith('node_modules') && /\.(json|js)$/.test(from);
  cpSync(from, isFile && written.endsWith('/') ? join(to, from.slice(from.lastIndexOf('/') + 1)) : to, {
    recursive: true,
    verbatimSymlinks: true,
  });
}

function owner(): string {
  return `${process.getuid?.()}:${process.getgid?.()}`;
}
