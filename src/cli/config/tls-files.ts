import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

import type { Pem, TlsOptions } from '../../options/connection-options.ts';
import type { ServerConfig } from '../../options/server-options.ts';
import { ConfigError } from './config-error.ts';

/**
 * Reads the PEM files that providers name in `tls`, by paths beside the config. PEM text itself may stand there, too.
 *
 * @throws {ConfigError} naming the option whose file can't be read
 */
export function withTlsFiles(config: ServerConfig, path: string): ServerConfig {
  if (!isObject(config.providers)) return config;
  const providers = Object.entries(config.providers).map(([name, provider]) => {
    const tls = isObject(provider) ? provider.tls : undefined;
    if (!isObject(tls)) return [name, provider] as const;
    const option = `providers[${JSON.stringify(name)}].tls`;
    return [name, { ...provider, tls: withFiles(tls, option, path) }] as const;
  });
  return { ...config, providers: Object.fromEntries(providers) };
}

function withFiles(tls: TlsOptions, option: string, path: string): TlsOptions {
  const { ca, cert, key } = tls;
  const read = (given: Pem, name: string): Pem => contentOf(given, `${option}.${name}`, path);
  const isList = (given: unknown): given is readonly Pem[] => Array.isArray(given);
  return {
    ...tls,
    ...(ca !== undefined && { ca: isList(ca) ? ca.map((each) => read(each, 'ca')) : read(ca, 'ca') }),
    ...(cert !== undefined && { cert: read(cert, 'cert') }),
    ...(key !== undefined && { key: read(key, 'key') }),
  };
}

function contentOf(given: Pem, option: string, path: string): Pem {
  if (typeof given !== 'string' || given.includes('-----BEGIN ')) return given;
  try {
    return readFileSync(resolve(path, '..', given), 'utf8');
  } catch (error) {
    // Without the path: it may be a part of a key.
    const code = error instanceof Error && 'code' in error ? ` (${String(error.code)})` : '';
    throw new ConfigError(path, `${option}: the PEM file can't be read${code}`);
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
