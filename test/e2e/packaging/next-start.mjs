// `next start` of the app in this folder, as `app.mjs` of the runtimes tells of itself; the argument is the path of its mount's parent.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const args = ['node_modules/next/dist/bin/next', 'start', '--port', '0', '--hostname', '127.0.0.1'];
const next = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
let origin;
createInterface({ input: next.stdout }).on('line', (line) => {
  origin ??= /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
  if (line.includes('Ready')) console.log(`listening ${JSON.stringify(origin + (process.argv[2] ?? ''))}`);
  else if (line.startsWith('settled ')) console.log(line);
});
next.on('exit', () => process.exit());
// The end of the input is that of the test that started this.
process.stdin.on('end', () => next.kill()).resume();
