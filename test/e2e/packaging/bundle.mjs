// Bundles `app.mjs` of a folder into another, by the bundler that the first argument names.
import { execFileSync, execSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const [bundler, from, to] = process.argv.slice(2);
const entry = join(from, 'app.mjs');
const BUILTINS = [/^node:/];

const BUNDLERS = {
  'esbuild, ESM': () => runDocumented(0),
  'esbuild, ESM with a banner': () => runDocumented(1),
  'esbuild, ESM in chunks': () =>
    esbuild({ format: 'esm', splitting: true, outdir: to, outExtension: { '.js': '.mjs' } }),
  'esbuild, minified ESM': () => esbuild({ format: 'esm', minify: true, outfile: join(to, 'app.mjs') }),
  'esbuild, CommonJS': () => esbuild({ format: 'cjs', outfile: join(to, 'app.cjs') }),
  rollup: async () => {
    const { rollup } = await import('rollup');
    const { nodeResolve } = await import('@rollup/plugin-node-resolve');
    const { default: commonjs } = await import('@rollup/plugin-commonjs');
    const { default: json } = await import('@rollup/plugin-json');
    const plugins = [nodeResolve({ preferBuiltins: true }), commonjs(), json()];
    const bundle = await rollup({ input: entry, plugins, external: BUILTINS, onwarn: () => {} });
    await bundle.write({
      dir: to,
      format: 'esm',
      entryFileNames: '[name].mjs',
      chunkFileNames: '[name].mjs',
    });
  },
  rolldown: async () => {
    const { rolldown } = await import('rolldown');
    const bundle = await rolldown({ input: entry, platform: 'node', logLevel: 'silent' });
    await bundle.write({
      dir: to,
      format: 'esm',
      entryFileNames: '[name].mjs',
      chunkFileNames: '[name].mjs',
    });
  },
  webpack: async () => {
    const { default: webpack } = await import('webpack');
    const stats = await new Promise((resolve, reject) => {
      const options = {
        entry,
        target: 'node22',
        mode: 'production',
        experiments: { outputModule: true },
        output: { path: to, filename: 'app.mjs', chunkFilename: '[name].mjs', module: true },
      };
      webpack(options, (error, result) => (error ? reject(error) : resolve(result)));
    });
    if (stats.hasErrors()) throw new Error(stats.toString());
  },
  'bun build': () =>
    execFileSync(
      join(import.meta.dirname, 'node_modules/bun/bin/bun.exe'),
      ['build', entry, '--target=node', `--outfile=${join(to, 'app.mjs')}`],
      { cwd: from, stdio: ['ignore', 'ignore', 'inherit'] },
    ),
};

async function esbuild(options) {
  const { build } = await import('esbuild');
  const { warnings } = await build({
    entryPoints: [entry],
    bundle: true,
    platform: 'node',
    logLevel: 'warning',
    ...options,
  });
  if (warnings.length > 0) throw new Error('esbuild warns');
}

/** A line of docs/runtimes.md, with its files replaced. */
function runDocumented(index) {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/runtimes.md'), 'utf8');
  const line = page.match(/^npx esbuild .*$/gm)[index];
  const program = join(import.meta.dirname, 'node_modules/.bin/esbuild');
  const command = line
    .replace('npx esbuild app.ts', `'${program}' '${entry}' --log-level=warning`)
    .replace('--outfile=dist/app.mjs', `--outfile='${join(to, 'app.mjs')}'`);
  execSync(command, { cwd: from, stdio: 'inherit' });
}

await BUNDLERS[bundler]();
