/** `npm run example -- NAME`: runs an example of `examples/`, from `dist/` as it was built last. */
import { existsSync, readdirSync } from 'node:fs';

import { EXAMPLES_WITH_PACKAGES, installE2e } from './e2e-packages.ts';

const EXAMPLES = new URL('../examples/', import.meta.url);
const [name = ''] = process.argv.slice(2);
const names = readdirSync(EXAMPLES).filter(isApp).sort();

if (!names.includes(name)) {
  console.error(`npm run example -- NAME, where NAME is one of ${names.join(', ')}`);
  process.exit(1);
}
if (EXAMPLES_WITH_PACKAGES.includes(name)) installE2e();
process.argv.splice(2, 1); // the example sees its own arguments alone
await import(new URL(`${name}/server.ts`, EXAMPLES).href);

function isApp(folder: string): boolean {
  return existsSync(new URL(`${folder}/server.ts`, EXAMPLES));
}
