import {
  deployGateway,
  killAllGateways,
  killGateway,
  stepClock,
  stopGateway,
  stopGatewayLong,
} from './gateway-nemeses.ts';
import { startRedisWorld } from './redis-world.ts';
import type { Scenario } from './scenario.ts';
import type { Nemesis } from './stage.ts';

/** @param names - of the world's nemeses */
function redis(name: string, names: readonly string[], gateways: readonly Nemesis[] = []): Scenario {
  return {
    name: `redis-${name}`,
    gateways: 2,
    rate: 30,
    hasOutbox: true,
    hasRealPace: false,
    startWorld: startRedisWorld,
    nemeses: (world) => [...names.map((each) => world.nemeses[each]!), ...gateways],
  };
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
  redis('clock', ['killRedis'], [stepClock]),
  redis(
    'mix',
    ['killRedis', 'freezeRedis', 'rollBackRedis', 'breakLinks', 'cutLinks', 'killClients', 'fillMemory'],
    [killGateway, deployGateway, stopGateway, stepClock],
  ),
];
