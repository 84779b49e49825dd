#!/usr/bin/env node
import { requireNode } from './cli/require-node.ts';

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
  requireNode(process.versions.node);
  const { main } = await import('./cli/main.ts');
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(`chat-completions-router: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
