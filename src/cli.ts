#!/usr/bin/env node
import { setFlagsFromString } from 'node:v8';

import { isNode, unsupportedNode } from './platform/node-version.ts';

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A reader such as `head` closed the pipe.
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
// Hides ExperimentalWarning from operators.
process.removeAllListeners('warning').on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') console.error(`chat-completions-router: ${warning.message}`);
});

try {
  // Before other modules are loaded: an old Node may not parse them.
  const problem = unsupportedNode(process.versions);
  if (problem !== undefined) throw new Error(problem);
  // A library may not set a flag for its app's process; this one is ours. docs/scaling.md says what the flag gives.
  if (isNode(process.versions)) setFlagsFromString('--no-allocation-site-pretenuring');
  const { main } = await import('./cli/main.ts');
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(`chat-completions-router: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
