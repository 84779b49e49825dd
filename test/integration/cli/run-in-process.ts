import { vi } from 'vitest';

import { main } from '../../../src/cli/main.ts';
import type { Ended } from '../../helpers/cli.ts';

/** Runs a command in this process, in a folder, with an environment of its own. */
export async function run(
  args: readonly string[],
  { folder, env = {} }: { readonly folder: string; readonly env?: Readonly<Record<string, string>> },
): Promise<Ended> {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const log = vi
    .spyOn(console, 'log')
    .mockImplementation((line: unknown) => void stdout.push(`${String(line)}\n`));
  const error = vi
    .spyOn(console, 'error')
    .mockImplementation((line: unknown) => void stderr.push(`${String(line)}\n`));
  const [before, variables] = [process.cwd(), process.env];
  process.chdir(folder);
  process.env = { ...env };
  try {
    const code = await main(args);
    return { code, stdout: stdout.join(''), stderr: stderr.join('') };
  } finally {
    process.env = variables;
    process.chdir(before);
    log.mockRestore();
    error.mockRestore();
  }
}
