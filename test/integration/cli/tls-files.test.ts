import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, expect, it } from 'vitest';

import { loadConfig } from '../../../src/cli/config/config-file.ts';
import { createAuthority } from '../../helpers/certificates.ts';

const folder = mkdtempSync(join(tmpdir(), 'ccr-tls-files-'));
const authority = createAuthority();
const { cert, key } = authority.issue('DNS:client');

afterAll(() => {
  rmSync(folder, { recursive: true });
});

function load(tls: unknown): ReturnType<typeof loadConfig> {
  const path = join(folder, 'config.json');
  const providers = {
    local: { baseURL: 'https://localhost/v1', tls },
    other: { baseURL: 'http://localhost/v1' },
  };
  writeFileSync(path, JSON.stringify({ providers, models: {} }));
  return loadConfig(path);
}

it('PEM files of a config are read, by paths beside it', async () => {
  for (const [name, text] of Object.entries({ 'ca.pem': authority.ca, 'cert.pem': cert, 'key.pem': key })) {
    writeFileSync(join(folder, name), text);
  }
  const tls = {
    ca: ['ca.pem', authority.ca],
    cert: './cert.pem',
    key: join(folder, 'key.pem'),
    servername: 'name',
  };
  expect((await load(tls)).providers).toEqual({
    local: {
      baseURL: 'https://localhost/v1',
      tls: { ca: [authority.ca, authority.ca], cert, key, servername: 'name' },
    },
    other: { baseURL: 'http://localhost/v1' },
  });
});

it('a PEM file that can not be read is an error that names the option, and shows no value', async () => {
  const error = await load({ ca: authority.ca, cert, key: 'MIIsecret' }).catch((thrown: Error) => thrown);
  expect(error).toMatchObject({
    message: expect.stringMatching(/providers\["local"\]\.tls\.key: the PEM file can't be read \(ENOENT\)$/),
  });
  expect(JSON.stringify(error) + (error instanceof Error ? error.message : '')).not.toContain('secret');
});
