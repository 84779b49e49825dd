import {
  deployGateway,
  killAllGateways,
  killGateway,
  stepClock,
  stopGateway,
  stopGatewayLong,
} from './gateway-nemeses.ts';
import { startClusterWorld } from './cluster-world.ts';
import { startRedisWorld } from './redis-world.ts';
import { startSentinelWorld } from './sentinel-world.ts';
import { startSmallDiskWorld } from './small-disk.ts';
import { startSqliteWorld } from './sqlite-world.ts';
import { startSwitchedWorld } from './switched-world.ts';
import type { Scenario } from './scenario.ts';
import type { Nemesis } from './stage.ts';

type StartWorld = Scenario['startWorld'];

/** @param names - of the world's nemeses */
function scenario(
  name: string,
  startWorld: StartWorld,
  names: readonly string[],
  gateways: readonly Nemesis[] = [],
): Scenario {
  return {
    name,
    gateways: 2,
    rate: 30,
    hasOutbox: true,
    hasRealPace: false,
    startWorld,
    nemeses: (world) => [...names.map((each) => world.nemeses[each]!), ...gateways],
  };
}

function redis(name: string, names: readonly string[], gateways: readonly Nemesis[] = []): Scenario {
  return scenario(`redis-${name}`, startRedisWorld, names, gateways);
}

/** Nothing breaks, and the pace is that of service. */
function base(name: string, startWorld: StartWorld): Scenario {
  return { ...scenario(`base-${name}`, startWorld, []), gateways: 4, rate: 100, hasRealPace: true };
}

function sqlite(name: string, gateways: readonly Nemesis[]): Scenario {
  return { ...scenario(`sqlite-${name}`, startSqliteWorld, [], gateways), gateways: 3 };
}

export const SCENARIOS: readonly Scenario[] = [
  redis('kill', ['killRedis', 'freezeRedis']),
  redis('rollback', ['rollBackRedis']),
  redis('network', ['breakLinks', 'cutLinks']),
  redis('refusals', ['fillMemory', 'refuseWrites', 'flushScripts', 'killClients', 'pauseClients']),
  redis('flush', ['flushRedis']),
  redis('gateways', ['killRedis'], [killGateway, deployGateway, stopGateway]),
  { ...redis('no-outbox', [], [killGateway, deployGateway]), hasOutbox: false },
  redis('stop-loss', ['rollBackRedis'], [stopGateway]),
  redis('long-stop', ['rollBackRedis'], [stopGatewayLong]),
  redis('power', ['rollBackWithGateway'], [killAllGateways]),
  scenario('redis-full-disk', startSmallDiskWorld, ['fillDisk', 'killRedis', 'freezeRedis']),
  redis('clock', ['killRedis'], [stepClock]),
  redis(
    'mix',
    ['killRedis', 'freezeRedis', 'rollBackRedis', 'breakLinks', 'cutLinks', 'killClients', 'fillMemory'],
    [killGateway, deployGateway, stopGateway, stepClock],
  ),
  scenario('proxy-switch', startSwitchedWorld, ['switchOver']),
  scenario('proxy-mix', startSwitchedWorld, ['switchOver'], [killGateway, stopGateway]),
  scenario('sentinel-failover', startSentinelWorld, ['failOver', 'killPrimary']),
  scenario('sentinel-lag', startSentinelWorld, ['failOverWithLag', 'killPrimary']),
  scenario(
    'sentinel-mix',
    startSentinelWorld,
    ['failOver', 'failOverWithLag', 'killPrimary', 'freezePrimary'],
    [killGateway, stopGateway],
  ),
  scenario('cluster-takeover', startClusterWorld, ['takeOver', 'takeOverFromTheDead']),
  scenario('cluster-move', startClusterWorld, ['moveSlot', 'failOver']),
  scenario(
    'cluster-mix',
    startClusterWorld,
    ['failOver', 'takeOver', 'takeOverFromTheDead', 'moveSlot', 'freezeNode', 'killClusterClients'],
    [killGateway, stopGateway],
  ),
  sqlite('kill', [killGateway, killAllGateways, deployGateway]),
  sqlite('stop', [stopGateway, stopGatewayLong]),
  { ...scenario('sqlite-power', startSqliteWorld, ['cutPower']), gateways: 3 },
  sqlite('clock', [stepClock, killGateway]),
  base('sqlite', startSqliteWorld),
  base('redis', startRedisWorld),
];
