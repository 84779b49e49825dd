// Says kindly what is wrong where the Node that runs is too old for the tools, then runs a script:
// `node scripts/run.mjs test …`. Plain JavaScript, because an old Node must be able to read it.
import { spawnSync } from 'node:child_process';

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(
    `This is Node ${process.versions.node}; the project's tools need its own Node 24.\n` +
      '`npm ci` installs that as a dev dependency, by the install script of the package "node".\n' +
      'If install scripts are switched off here: npm rebuild node --ignore-scripts=false',
  );
  process.exit(1);
}
const [script, ...args] = process.argv.slice(2);
const { status } = spawnSync(process.execPath, [`scripts/${script}.ts`, ...args], { stdio: 'inherit' });
process.exit(status ?? 1);
