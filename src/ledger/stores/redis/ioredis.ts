// Imported in this order: see `lendRequire`.
import { takeBackRequire } from './lent-require.ts';
import * as loaded from 'ioredis';

takeBackRequire();

/** webpack finds no named exports in a CommonJS package that exports a function, only `default`. */
export const ioredis: typeof loaded =
  'Redis' in loaded ? loaded : (loaded as { readonly default: typeof loaded }).default;
