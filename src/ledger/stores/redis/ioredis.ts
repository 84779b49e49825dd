// Imported in this order: see `lendRequire`.
import { takeBackRequire } from './lent-require.ts';
import * as loaded from 'ioredis';

takeBackRequire();

/** webpack finds no names in a CommonJS package that is a function, only the function that they are on. */
export const ioredis: typeof loaded =
  'Redis' in loaded ? loaded : (loaded as { readonly default: typeof loaded }).default;
