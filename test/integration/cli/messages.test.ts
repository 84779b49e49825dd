import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { run } from './run-in-process.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ccr-messages-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

describe('a command', () => {
  it('that may create a store says who does, where its file does not exist', async () => {
    const { code, stderr } = await run(['keys', 'create', 'acme', '--store', 'sqlite:./no.db'], { folder });
    expect(code).toBe(1);
    expect(stderr).toBe(
      'chat-completions-router: file not found: ./no.db; the app creates it when it gets its first request, and this command creates the store of a --config FILE\n',
    );
    expect(existsSync(join(folder, 'no.db'))).toBe(false);
  });
});
