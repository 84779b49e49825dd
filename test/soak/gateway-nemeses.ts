import { setTimeout as pause } from 'node:timers/promises';

import type { GatewayPlace } from './gateway-place.ts';
import { drawMs, type Nemesis, type Stage } from './stage.ts';
import type { Fault } from './timeline.ts';

const HOUR_MS = 3_600_000;

export const killGateway: Nemesis = {
  name: 'kill a gateway',
  group: 'gateways',
  async strike(stage, fault) {
    const place = drawPlace(stage, fault);
    await place.kill();
    await pause(drawMs(stage, 0.05, 5));
    await place.start();
  },
};

export const killAllGateways: Nemesis = {
  name: 'kill all gateways',
  group: 'gateways',
  async strike(stage) {
    await Promise.all(stage.places.map((place) => place.kill()));
    await pause(drawMs(stage, 0.05, 3));
    await Promise.all(stage.places.map((place) => place.start()));
  },
};

export const deployGateway: Nemesis = {
  name: 'deploy a gateway',
  group: 'gateways',
  async strike(stage, fault) {
    const place = drawPlace(stage, fault);
    await place.terminate();
    await place.start();
  },
};

export const stopGateway: Nemesis = {
  name: 'stop a gateway',
  group: 'gateways',
  strike: (stage, fault) => stopFor(stage, fault, drawMs(stage, 1, 15)),
};

/** Longer than its leases, and than what others wait for a gateway. */
export const stopGatewayLong: Nemesis = {
  name: 'stop a gateway for long',
  group: 'gateways',
  strike: (stage, fault) => stopFor(stage, fault, drawMs(stage, 60, 90)),
};

export const stepClock: Nemesis = {
  name: "step a gateway's clock",
  group: 'gateways',
  async strike(stage, fault) {
    const place = drawPlace(stage, fault);
    const offsetMs = stage.random.between(-3 * HOUR_MS, 3 * HOUR_MS);
    fault.notes.push(`${offsetMs} ms`);
    await place.control({ do: 'set clock', offsetMs }).catch(() => {});
    await pause(drawMs(stage, 1, 10));
    await place.control({ do: 'set clock', offsetMs: 0 }).catch(() => {});
  },
};

async function stopFor(stage: Stage, fault: Fault, ms: number): Promise<void> {
  const place = drawPlace(stage, fault);
  fault.notes.push(`${ms} ms`);
  place.stop();
  await pause(ms);
  place.continue();
}

function drawPlace({ random, places }: Stage, fault: Fault): GatewayPlace {
  const place = places[random.below(places.length)]!;
  fault.notes.push(`gateway ${place.place}`);
  return place;
}
