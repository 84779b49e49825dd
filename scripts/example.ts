/** `npm run example -- NAME`: runs an example of `examples/`, from `dist/` as it was built last. */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';

const EXAMPLES = new URL('../examples/', import.meta.url);
const [name = '', ...args] = process.argv.slice(2);
const names = readdirSync(EXAMPLES).filter((folder) => isApp(folder) || isNextApp(folder));

if (!names.includes(name)) {
  console.error(`npm run example -- NAME, where NAME is one of ${names.join(', ')}`);
  process.exit(1);
}
if (isNextApp(name)) {
  spawn('next', ['dev', `examples/${name}`, '--port', process.env['PORT'] ?? '8787', ...args], {
    stdio: 'inherit',
  });
} else {
  await import(new URL(`${name}/server.ts`, EXAMPLES).href);
}

function isApp(folder: string): boolean {
  return existsSync(new URL(`${folder}/server.ts`, EXAMPLES)) && folder !== 'parrot';
}

function isNextApp(folder: string): boolean {
  return existsSync(new URL(`${folder}/next.config.ts`, EXAMPLES));
}
