import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { asShown, startParrotGateway } from '../../helpers/parrot-gateway.ts';
import type { Toolchain } from './toolchains.ts';

const PAGE = readFileSync(new URL('../../../docs/clients.md', import.meta.url), 'utf8');

/**
 * Runs the lines that docs/clients.md has under a heading, against the demo's model.
 *
 * @param whole - makes a program of them, where imports and a main function are left out
 */
export function describeShownProgram(
  heading: string,
  { missing, prepare, program }: Toolchain,
  whole: (lines: string) => string = (lines) => lines,
): void {
  describe.skipIf(missing !== undefined)(`docs/clients.md, ${heading}`, () => {
    it('shows a program that streams', { timeout: 600_000 }, async () => {
      const [, lines] =
        new RegExp(`^## ${heading}\\n[^#]*?^\`\`\`\\w+\\n(.*?)^\`\`\``, 'ms').exec(PAGE) ?? [];
      if (lines === undefined) throw new Error(`no program under ${heading}`);
      await prepare();
      const gateway = await startParrotGateway();
      try {
        const source = asShown(whole(lines), gateway.baseURL);
        const [command, ...args] = await program(source);
        const env = { ...process.env, LC_ALL: 'C.UTF-8', ROUTER_API_KEY: gateway.key };
        const { stdout } = await promisify(execFile)(command, args, { env });
        expect(stdout).toContain('“Good morning”');
      } finally {
        await gateway.close();
      }
    });
  });
}
