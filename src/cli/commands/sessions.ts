import { createSessions, MAX_TTL_MS, resolveSessions, type Sessions } from '../../keys/sessions.ts';
import { findConfig, loadConfig } from '../config/config-file.ts';
import { labelsFrom } from './key-options.ts';
import {
  NotFoundError,
  required,
  type StoreCommand,
  type StoreInvocation,
  UsageError,
  positiveNumber,
} from './command.ts';

export const createSessionCommand: StoreCommand = {
  name: 'sessions create',
  summary: 'Create a session: an API key for a web page, valid for minutes',
  store: 'exists',
  positionals: 'ACCOUNT',
  options: {
    'max-spend': { value: 'AMOUNT', isRequired: true, help: 'the most that it can spend, in USD' },
    ttl: { value: 'SECONDS', isRequired: true, help: 'how long it is valid, at most 86400' },
    origins: {
      value: 'ORIGINS',
      isRequired: true,
      help: 'the sites whose pages may use it, e.g. https://chat.example.com',
    },
    user: { value: 'USER', help: 'whom it is for' },
    models: { value: 'PATTERNS', help: 'the models that it may use; default: all' },
    require: { value: 'LABELS', help: 'labels of the allowed targets, e.g. region=eu+ch,zdr=true' },
    markup: { value: 'FACTOR', help: 'factor on the prices of its requests, e.g. 1.2; default: none' },
  },
  examples: ['sessions create acme --max-spend 0.50 --ttl 900 --origins https://chat.example.com'],
  async run(invocation) {
    const { positionals, options, print, note } = invocation;
    const [account = ''] = positionals;
    const { user, models, require, markup } = options;
    const created = (await sessionsOf(invocation)).create({
      account,
      maxSpend: required(invocation, 'max-spend'),
      ttlMs: ttlMsOf(required(invocation, 'ttl')),
      origins: required(invocation, 'origins').split(','),
      ...(user !== undefined && { user }),
      ...(models !== undefined && { models: models.split(',') }),
      ...(require !== undefined && { require: labelsFrom(require, '--require') }),
      ...(markup !== undefined && { markup: { factor: markup } }),
    });
    print(created.session, { account, ...created });
    note(`${account}: created session ${created.id}, valid until ${created.expiresAt.toISOString()}`);
    return true;
  },
};

export const revokeSessionCommand: StoreCommand = {
  name: 'sessions revoke',
  summary: 'Revoke a session permanently, also one that was not used yet',
  store: 'exists',
  positionals: 'SESSION',
  options: {},
  examples: ['sessions revoke ses-…'],
  async run(invocation) {
    const [session = ''] = invocation.positionals;
    const sessions = await sessionsOf(invocation);
    const revoked = await sessions.revoke(session).catch((error: unknown) => {
      if (Reflect.get(Object(error), 'code') !== 'invalid_api_key') throw error;
      throw new NotFoundError('this is no session: the secret of the config did not sign it', {
        error: 'no_session',
      });
    });
    invocation.print(`${revoked.account}: revoked session ${revoked.id}`, revoked);
    return true;
  },
};

function ttlMsOf(seconds: string): number {
  const ttlMs = positiveNumber(seconds, '--ttl') * 1000;
  if (ttlMs > MAX_TTL_MS) throw new UsageError(`--ttl must be at most ${MAX_TTL_MS / 1000}, got ${seconds}`);
  return ttlMs;
}

/** @throws {UsageError} if there is no config, which has the secret */
async function sessionsOf({ store, options: { config } }: StoreInvocation): Promise<Sessions> {
  const path = config ?? findConfig('.');
  if (path === undefined) {
    throw new UsageError('sessions are signed with the secret of a config; use --config FILE');
  }
  const { sessions } = await loadConfig(path);
  return createSessions(store, resolveSessions(sessions), Date.now);
}
