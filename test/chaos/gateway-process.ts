import { onTestFinished } from 'vitest';

import type { GatewayOptions } from '../processes/gateway.ts';
import { type GatewayProcess, spawnGateway } from './gateway-child.ts';

export type { GatewayProcess };

/** A gateway that dies with its test, if not before. */
export async function startGatewayProcess(options: GatewayOptions): Promise<GatewayProcess> {
  return spawnGateway(options, (kill) => onTestFinished(kill));
}
