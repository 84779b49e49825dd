import { tryCommands } from './lua/try-commands.ts';
import type { ScriptRunner } from './script-runner.ts';

/** @throws an Error that names the commands of Redis that its user may not run, or that it doesn't have */
export async function refuseUnlessAllowed(runner: ScriptRunner, missingAccount: string): Promise<void> {
  const keys = runner.keys.ofAccount(missingAccount).slice(0, 1);
  const refused = await runner.run(tryCommands, keys, []);
  if (refused.length > 0) {
    throw new Error(`Redis refuses these commands: ${refused.join(', ')}. Allow them in the ACL of its user`);
  }
}
