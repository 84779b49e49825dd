import { lendRequire } from '../async/lend-require.ts';

export const takeBackRequire: () => void = lendRequire();
