import type { Operator } from './operator.ts';
import type { Fault } from './swarm.ts';
import { MOMENTS, type Slot, START, TROUBLE_MS, type World } from './world.ts';

const HOUR = 3_600_000;
const STEPS = [-24 * HOUR, -HOUR, HOUR, 24 * HOUR] as const;

/** Plans all that goes wrong, and all that is asked for, in the time of troubles. */
export function plan(world: World, operator: Operator): void {
  const { swarm, random, slots } = world;
  for (const slot of slots) world.start(slot);
  const sometime = (run: () => void): void => {
    world.time.after(world.fate, random.between(1, TROUBLE_MS - 1), run);
  };
  // Requests come in bursts as often as one by one.
  for (let left = swarm.requests; left > 0;) {
    const burst = Math.min(left, random.chance(0.3) ? random.between(2, 20) : 1);
    left -= burst;
    sometime(() => {
      for (let n = 0; n < burst; n++) world.ask();
    });
  }
  for (let n = 0; n < swarm.operations; n++) sometime(() => operator.change());
  for (let n = 0; n < swarm.sanctions; n++) sometime(() => operator.sanction());
  for (const [fault, times] of swarm.faults) {
    for (let n = 0; n < times; n++) {
      // By chance, or where it hurts: a moment after something was asked for or done.
      const moment = random.pick([undefined, ...MOMENTS]);
      if (moment === undefined) sometime(() => strike(world, fault));
      else sometime(() => world.ambush(moment, random.skewed(0, 50), (slot) => strike(world, fault, slot)));
    }
  }
}

/** Ends all troubles: whatever was broken works, whoever was dead lives. */
export function heal(world: World): void {
  const { swarm, server, slots, machines } = world;
  world.note('all is well from now on');
  world.calm();
  Object.assign(swarm.network, { dropRequest: 0, dropReply: 0, duplicate: 0, delay: 0, refuse: 0 });
  if (server.isEmpty) world.lose(server.restore(), 'emptied');
  server.isUp = true;
  server.actor.clockOffset = 0;
  for (const machine of machines) machine.failing = false;
  for (const slot of slots) {
    if (!slot.gateway?.actor.alive) world.start(slot);
    const { gateway } = slot;
    if (!gateway) continue;
    gateway.connection.isCut = false;
    // A clock may stay wrong.
    world.loseConnection(gateway);
  }
}

function strike(world: World, fault: Fault, at?: Slot): void {
  const { random, server, swarm } = world;
  const slot = at ?? world.slots[random.below(world.slots.length)]!;
  const { machine } = slot;
  const lag = Math.ceil(random.skewed(1, swarm.lagMs));
  world.note(`fault: ${fault}`);
  world.count(`fault ${fault}`);
  switch (fault) {
    case 'partition':
      cut(world, slot);
      break;
    case 'reset':
      world.loseConnections();
      break;
    case 'outage':
      outage(world, () => {});
      break;
    case 'crash':
      outage(world, () => world.lose(server.rollBack(Math.min(lag, 1000))));
      break;
    case 'failover':
      outage(world, () => world.lose(server.rollBack(lag)));
      break;
    case 'silent failover':
      // No connection was lost, so where others write on it may stay unnoticed.
      world.lose(server.rollBack(lag), 'unnoticed');
      break;
    case 'empty restart':
      empty(world, lag);
      break;
    case 'kill':
      world.kill(slot, 'killed');
      later(world, 60_000, () => restart(world, slot));
      break;
    case 'power cut':
      for (const each of world.slots) if (each.machine === machine) world.kill(each, 'power cut');
      machine.losePower();
      later(world, 60_000, () => {
        for (const each of world.slots) if (each.machine === machine) restart(world, each);
      });
      break;
    case 'stop':
      stop(world, slot);
      break;
    case 'stall': {
      const { gateway } = slot;
      const until = world.time.now + random.skewed(100, 2 * swarm.terms.leaseMs);
      if (gateway) gateway.actor.stalledUntil = Math.min(until, START + TROUBLE_MS);
      break;
    }
    case 'gateway clock': {
      const { gateway } = slot;
      if (gateway) gateway.actor.clockOffset = random.pick(STEPS);
      later(world, 120_000, () => {
        if (gateway) gateway.actor.clockOffset = swarm.clockOffsets[slot.index] ?? 0;
      });
      break;
    }
    case 'store clock':
      server.actor.clockOffset = random.pick(STEPS);
      world.storeClockStepped = true;
      later(world, 120_000, () => {
        server.actor.clockOffset = 0;
      });
      break;
    case 'full disk':
      machine.failing = true;
      later(world, 60_000, () => {
        machine.failing = false;
      });
      break;
  }
}

function cut(world: World, slot: Slot): void {
  const { gateway } = slot;
  if (!gateway) return;
  gateway.connection.isCut = true;
  world.loseConnection(gateway);
  later(world, 60_000, () => {
    gateway.connection.isCut = !gateway.actor.alive;
  });
}

/** The server is away for a while, and then another takes its place, perhaps. */
function outage(world: World, atItsEnd: () => void): void {
  const { server } = world;
  if (!server.isUp) return;
  server.isUp = false;
  world.loseConnections();
  atItsEnd();
  // Some outages outlast what is remembered in any case.
  later(world, world.random.pick([30_000, 30_000, 300_000]), () => {
    server.isUp = true;
  });
}

function empty(world: World, lag: number): void {
  const { server } = world;
  if (server.isEmpty || !server.isUp) return;
  world.lose(server.rollBack(lag), 'emptied');
  server.forgetAll();
  world.loseConnections();
  later(world, 60_000, () => {
    if (!server.isEmpty) return;
    world.lose(server.restore(), 'emptied');
    world.loseConnections();
  });
}

function stop(world: World, slot: Slot): void {
  const { gateway } = slot;
  if (!gateway) return;
  world.note(`${gateway.actor.name} is told to stop`);
  world.time.after(gateway.actor, 0, () => {
    gateway.stop(10_000).then(
      () => {
        if (slot.gateway === gateway) slot.gateway = undefined;
        later(world, 20_000, () => restart(world, slot));
      },
      (error: unknown) => world.fail(`a gateway could not stop: ${String(error)}`),
    );
  });
}

function restart(world: World, slot: Slot): void {
  if (!slot.gateway?.actor.alive) world.start(slot);
}

function later(world: World, mostMs: number, run: () => void): void {
  world.time.after(world.fate, world.random.skewed(1, mostMs), run);
}
