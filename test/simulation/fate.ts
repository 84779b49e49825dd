import type { Clients } from './clients.ts';
import type { Gateway } from './gateway.ts';
import type { Operator } from './operator.ts';
import { type Fault, isRollback } from './swarm.ts';
import { MOMENTS, SERVES_WITHIN_MS, type Slot, TROUBLE_MS, type World } from './world.ts';

const HOUR = 3_600_000;
const STEPS = [-24 * HOUR, -HOUR, HOUR, 24 * HOUR] as const;
/** Time around a rollback in which more requests are sent. */
const RUSH_MS = 3000;

/** Schedules everything that happens to the other parts. */
export class Fate {
  readonly #world: World;
  readonly #operator: Operator;
  readonly #clients: Clients;
  #isOver = false;
  /** Gateways that lose their connections when a takeover ends. */
  #takeoverCloses: ReadonlySet<Gateway> = new Set();

  constructor(world: World, operator: Operator, clients: Clients) {
    this.#world = world;
    this.#operator = operator;
    this.#clients = clients;
  }

  /** Schedules all faults and requests of the fault phase. */
  plan(): void {
    const { swarm, random, slots } = this.#world;
    for (const slot of slots) this.#world.start(slot);
    // Requests arrive in bursts as often as one by one.
    for (let left = swarm.requests; left > 0;) {
      const burst = Math.min(left, random.chance(0.3) ? random.between(2, 20) : 1);
      left -= burst;
      this.#sometime(() => {
        for (let n = 0; n < burst; n++) this.#clients.ask();
      });
    }
    for (let n = 0; n < swarm.operations; n++) this.#sometime(() => this.#operate());
    for (let n = 0; n < swarm.sanctions; n++) this.#sometime(() => this.#operator.sanction());
    for (const [fault, times] of swarm.faults) {
      for (let n = 0; n < times; n++) this.#sometime(() => this.#prepare(fault));
    }
  }

  /** A fault happens at random, or where it hurts: shortly after something was requested or done. */
  #prepare(fault: Fault): void {
    const { random, swarm } = this.#world;
    const moment = random.pick([undefined, ...MOMENTS]);
    if (isRollback(fault)) this.#rush();
    if (moment === undefined) {
      this.#later(isRollback(fault) ? swarm.lagMs : 1, () => this.#strike(fault));
    } else {
      this.#world.ambush(moment, random.skewed(0, 50), (slot) => this.#strike(fault, slot));
    }
  }

  #operate(): void {
    if (this.#world.random.chance(0.8)) this.#operator.change();
    else this.#operator.createKey();
  }

  /** Clients and an operator, at about the same time. */
  #rush(): void {
    const { random } = this.#world;
    this.#clients.rush(RUSH_MS);
    if (random.chance(0.5)) this.#after(random.below(RUSH_MS), () => this.#operate());
  }

  /** Ends the fault phase: repairs everything, and restarts all dead gateways. */
  heal(): void {
    const world = this.#world;
    const { swarm, server, slots, machines } = world;
    world.note('all is well from now on');
    this.#isOver = true;
    world.calm();
    world.calmSince = world.time.now + SERVES_WITHIN_MS;
    const latencyMs = Math.min(swarm.network.latencyMs, 5);
    Object.assign(swarm.network, {
      dropRequest: 0,
      dropReply: 0,
      duplicate: 0,
      delay: 0,
      refuse: 0,
      latencyMs,
    });
    this.#endTakeover();
    if (server.isEmpty) world.rollbacks.lose(server.restore(), 'emptied');
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

  #strike(fault: Fault, at?: Slot): void {
    const world = this.#world;
    if (this.#isOver) return;
    const { random, server, swarm, rollbacks } = world;
    const slot = at ?? world.slots[random.below(world.slots.length)]!;
    const { machine, gateway } = slot;
    const lag = random.between(1, swarm.lagMs);
    world.note(`fault: ${fault}`);
    world.count(`fault ${fault}`);
    world.calmSince = Infinity;
    if (isRollback(fault)) this.#rush();
    switch (fault) {
      case 'partition':
        this.#cut(slot);
        break;
      case 'reset':
        world.loseConnections();
        break;
      case 'outage':
        this.#outage(() => {});
        break;
      case 'crash':
        this.#outage(() => rollbacks.lose(server.rollBack(Math.min(lag, 1000))));
        break;
      case 'failover':
        this.#outage(() => rollbacks.lose(server.rollBack(lag)));
        break;
      case 'silent failover':
        // No connection is lost: later writes of other gateways hide the rollback.
        this.#endTakeover();
        rollbacks.lose(server.rollBack(lag), 'silently');
        break;
      case 'takeover':
        this.#takeOver(lag);
        break;
      case 'empty restart':
        this.#empty(lag, true);
        break;
      case 'flush':
        this.#empty(1, random.chance(0.5));
        break;
      case 'kill':
        world.kill(slot, 'killed');
        this.#later(60_000, () => this.#restart(slot));
        break;
      case 'power cut':
        for (const each of world.slots) if (each.machine === machine) world.kill(each, 'power cut');
        machine.losePower();
        this.#later(60_000, () => {
          for (const each of world.slots) if (each.machine === machine) this.#restart(each);
        });
        break;
      case 'stop':
        this.#stop(slot);
        break;
      case 'stall': {
        const until = world.time.now + random.skewed(100, 2 * swarm.terms.leaseMs);
        if (gateway) gateway.actor.stalledUntil = Math.min(until, swarm.startsAt + TROUBLE_MS);
        break;
      }
      case 'gateway clock':
        if (gateway) gateway.actor.clockOffset = random.pick(STEPS);
        this.#later(120_000, () => {
          if (gateway) gateway.actor.clockOffset = swarm.clockOffsets[slot.index] ?? 0;
        });
        break;
      case 'store clock':
        server.actor.clockOffset = random.pick(STEPS);
        world.storeClockStepped = true;
        this.#later(120_000, () => {
          server.actor.clockOffset = 0;
        });
        break;
      case 'full disk':
        machine.failing = true;
        this.#later(60_000, () => {
          machine.failing = false;
        });
        break;
    }
  }

  #cut(slot: Slot): void {
    const { gateway } = slot;
    if (!gateway) return;
    gateway.connection.isCut = true;
    this.#world.loseConnection(gateway);
    this.#later(60_000, () => {
      gateway.connection.isCut = !gateway.actor.alive;
    });
  }

  /** The server is unavailable for a while, and possibly another takes its place afterwards. */
  #outage(atItsEnd: () => void): void {
    const { server, random } = this.#world;
    if (!server.isUp) return;
    this.#endTakeover();
    server.isUp = false;
    this.#world.loseConnections();
    atItsEnd();
    // Some are short, and some exceed the retention of the redo log.
    this.#later(random.pick([2000, 30_000, 300_000]), () => {
      server.isUp = true;
    });
  }

  /** A lagging replica takes over, and some gateways don't notice for a while. */
  #takeOver(lag: number): void {
    const world = this.#world;
    const { server, rollbacks, slots, random } = world;
    if (server.isEmpty || !server.isUp) return;
    this.#endTakeover();
    const gateways = slots.flatMap(({ gateway }) => gateway ?? []);
    const staying = new Set(gateways.filter(() => random.chance(0.5)));
    rollbacks.lose(server.takeOver(lag, new Set([...staying].map(({ actor }) => actor.name))), 'silently');
    if (random.chance(0.5)) {
      for (const gateway of gateways) if (!staying.has(gateway)) world.loseConnection(gateway);
    }
    this.#takeoverCloses = random.chance(0.5) ? staying : new Set();
    this.#later(10_000, () => this.#endTakeover());
  }

  #endTakeover(): void {
    const { server, rollbacks } = this.#world;
    const lost = server.endTakeover();
    if (lost.length > 0) rollbacks.lose(lost, 'silently');
    for (const gateway of this.#takeoverCloses) if (gateway.actor.alive) this.#world.loseConnection(gateway);
    this.#takeoverCloses = new Set();
  }

  /** @param closes - the connections are lost when its data are, and when they are there again */
  #empty(lag: number, closes: boolean): void {
    const world = this.#world;
    const { server, rollbacks } = world;
    if (server.isEmpty || !server.isUp) return;
    this.#endTakeover();
    rollbacks.lose(server.rollBack(lag), 'emptied');
    rollbacks.misplace(server.forgetAll(closes ? undefined : server.identityFor('')));
    if (closes) world.loseConnections();
    this.#later(60_000, () => {
      if (!server.isEmpty) return;
      rollbacks.lose(server.restore(), 'emptied');
      if (closes) world.loseConnections();
    });
  }

  #stop(slot: Slot): void {
    const world = this.#world;
    const { gateway } = slot;
    if (!gateway) return;
    world.note(`${gateway.actor.name} is told to stop`);
    world.time.after(gateway.actor, 0, () => {
      gateway.stop(10_000).then(
        () => {
          if (slot.gateway === gateway) slot.gateway = undefined;
          this.#later(20_000, () => this.#restart(slot));
        },
        (error: unknown) => world.fail(`a gateway could not stop: ${String(error)}`),
      );
    });
  }

  #restart(slot: Slot): void {
    if (!slot.gateway?.actor.alive) this.#world.start(slot);
  }

  #sometime(run: () => void): void {
    this.#after(this.#world.random.between(1, TROUBLE_MS - 1), run);
  }

  #later(mostMs: number, run: () => void): void {
    this.#after(this.#world.random.skewed(1, mostMs), run);
  }

  #after(ms: number, run: () => void): void {
    this.#world.time.after(this.#world.fate, ms, run);
  }
}
