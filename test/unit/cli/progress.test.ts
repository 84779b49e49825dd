import { describe, expect, it } from 'vitest';

import { Progress } from '../../../src/cli/terminal/progress.ts';

function terminal(isTTY: boolean): {
  readonly isTTY: boolean;
  written: string;
  write(text: string): boolean;
} {
  return {
    isTTY,
    written: '',
    write(text) {
      this.written += text;
      return true;
    },
  };
}

describe('progress', () => {
  it('is one line of a terminal, written again ten times a second at most, and gone in the end', () => {
    const stderr = terminal(true);
    let now = 0;
    const progress = new Progress(stderr, () => now);
    progress.show('1 account');
    now = 99;
    progress.show('2 accounts');
    now = 100;
    progress.show('3 accounts');
    progress.clear();
    progress.clear();
    expect(stderr.written).toBe('\r\u001b[K1 account\r\u001b[K3 accounts\r\u001b[K');
  });

  it('is nothing where stderr is no terminal', () => {
    const stderr = terminal(false);
    const progress = new Progress(stderr, () => 0);
    progress.show('1 account');
    progress.clear();
    expect(stderr.written).toBe('');
  });
});
