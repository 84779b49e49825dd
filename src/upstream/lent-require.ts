import { lendRequire } from '../lend-require.ts';

export const takeBackRequire: () => void = lendRequire();
