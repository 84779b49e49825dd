import manifest from '../package.json' with { type: 'json' };

/** The first version of each range that the package's `engines` names, e.g. `22.15.0`. */
export const OLDEST_NODES: readonly string[] = manifest.engines.node
  .split('||')
  .map((range) => range.replace(/[\s^>=]/g, ''));

/** The majors that `engines` names, each for the newest version of it. */
export const NODE_MAJORS: readonly string[] = OLDEST_NODES.map((version) => version.split('.')[0] ?? '');
