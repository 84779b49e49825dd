import { lendRequire } from '../../platform/lend-require.ts';

export const takeBackRequire: () => void = lendRequire();
