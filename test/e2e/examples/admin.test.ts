import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import { describe, expect, it } from 'vitest';

import { ENV, startExample } from '../../helpers/example.ts';

describe('examples/admin', () => {
  it('prints a token and commands that work, and lets in no other client', async ({ onTestFinished }) => {
    const example = await startExample('admin', {}, /accounts\/demo -H .*\n/);
    onTestFinished(async () => void (await example.stop()));
    const [, address = ''] = /Admin\s+(http:\S+)/.exec(example.banner) ?? [];
    const commands = example.banner.slice(example.banner.indexOf(`curl ${address}`));
    const { stdout } = await promisify(execFile)('sh', ['-c', commands], { env: ENV });
    expect(stdout).toContain('"duplicate":false');
    expect(stdout).toContain('"balance":"25.00"');
    const headers = { authorization: 'Bearer nobody' };
    expect((await fetch(`${address}/accounts`, { headers })).status).toBe(401);
    expect(await example.stop()).toBe(0);
  });
});
