import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, it, onTestFinished, vi } from 'vitest';

import { startApp } from '../../helpers/app-process.ts';

it('a start that fails says why, and leaves no folder', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-start-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  vi.stubEnv('TMPDIR', folder);
  onTestFinished(() => void vi.unstubAllEnvs());
  const args = ['-e', 'process.exitCode = 3'];
  await expect(startApp({ args, cwd: folder })).rejects.toThrow(/ended with 3/);
  expect(readdirSync(folder)).toEqual([]);
});
