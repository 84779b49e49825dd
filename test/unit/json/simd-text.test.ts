import { readFile } from 'node:fs/promises';

import loadWabt from 'wabt';
import { expect, it } from 'vitest';

it('is what simd-text.wat says', async () => {
  const wabt = await loadWabt();
  const source = await readFile('src/json/simd-text.wat', 'utf8');
  const { buffer } = wabt.parseWat('simd-text.wat', source, { simd: true }).toBinary({});
  const code = Buffer.from(buffer).toString('base64');
  await expect(
    `// Made of simd-text.wat: \`npm test -- test/unit/json -u\` makes it again.\nexport const SIMD_TEXT =\n  '${code}';\n`,
  ).toMatchFileSnapshot('../../../src/json/simd-text.generated.ts');
});
