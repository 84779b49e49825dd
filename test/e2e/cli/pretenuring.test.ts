import { execFileSync } from 'node:child_process';

import { describe, expect, it } from 'vitest';

const CLI = new URL('../../../dist/cli.js', import.meta.url).href;

/** Says where V8 makes an object whose predecessors have all outlived collections. The last line is a function of V8's own. */
const PROBE = `
  const kept = [];
  const make = (n) => ({ n });
  for (let n = 0; n < 2e6; n++) kept.push(make(n));
  console.log(%InYoungGeneration(make(0)) ? 'young' : 'old');`;

/** V8 compiles in a thread, so one process in some has not decided when it is asked. */
const PROCESSES = 12;

function generations(program: string): Set<string> {
  const args = ['--allow-natives-syntax', '--input-type=module', '-e', program, 'cli', '--version'];
  const outputs = Array.from({ length: PROCESSES }, () =>
    execFileSync(process.execPath, args, { encoding: 'utf8' }),
  );
  return new Set(outputs.map((output) => output.trim().split('\n').at(-1) ?? ''));
}

describe('the command', () => {
  it('makes what outlives collections in the young generation', () => {
    expect(generations(PROBE)).toContain('old');
    expect(generations(`await import('${CLI}');${PROBE}`)).toEqual(new Set(['young']));
  });
});
