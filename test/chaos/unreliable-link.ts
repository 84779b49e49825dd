import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** What a link does to the bytes of a connection, each way. */
export type Fault =
  /** Closes it before the request has passed: nothing is applied. */
  | 'cut before'
  /** Closes it once the request has passed, in the place of the answer: all is applied. */
  | 'cut after'
  /** Keeps the answer for a while. */
  | 'stall'
  /** Passes nothing any more, either way, and tells nobody for a while. */
  | 'half-open'
  /** Passes an answer a few bytes at a time. */
  | 'slow';

export interface UnreliableLink {
  readonly port: number;
  /** How often each fault has struck. */
  readonly struck: Readonly<Record<Fault, number>>;
  /** Faults begin: of so many pieces of traffic one meets one. */
  fail(oneIn: number): void;
  /** From now on every piece of traffic passes. */
  heal(): void;
  close(): Promise<void>;
}

const FAULTS: readonly Fault[] = ['cut before', 'cut after', 'stall', 'half-open', 'slow'];
const STALL_MS = 150;
const SILENCE_MS = 300;

/** Stands between clients and a server, and fails at random, once it is told to. */
export async function startUnreliableLink(port: number): Promise<UnreliableLink> {
  const sockets = new Set<Socket>();
  const struck: Record<Fault, number> = {
    'cut before': 0,
    'cut after': 0,
    stall: 0,
    'half-open': 0,
    slow: 0,
  };
  let faultsOneIn = Infinity;
  let faults = 0;
  const draw = (): Fault | undefined => {
    if (Math.random() * faultsOneIn > 1) return undefined;
    faults += 1;
    return FAULTS[faults % FAULTS.length];
  };

  const link = createServer((client) => {
    const server = connect(port, '127.0.0.1');
    let isSilent = false;
    let losesAnswer = false;
    /** Answers in the order of their questions, some of them late. */
    let passing = Promise.resolve();
    const cut = (): void => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        cut();
      });
    }
    let isSlow = false;
    client.on('data', (bytes) => {
      const fault = draw();
      if (fault) struck[fault] += 1;
      if (fault === 'cut before') cut();
      if (fault === 'half-open') {
        isSilent = true;
        setTimeout(cut, SILENCE_MS).unref();
      }
      if (isSilent) return;
      losesAnswer ||= fault === 'cut after';
      isSlow = fault === 'slow';
      if (fault === 'stall') passing = passing.then(() => pause(STALL_MS));
      server.write(bytes);
    });
    server.on('data', (bytes) => {
      if (losesAnswer) cut();
      if (isSilent) return;
      const size = isSlow ? 7 : bytes.length;
      passing = passing.then(async () => {
        for (let at = 0; at < bytes.length && !client.destroyed; at += size) {
          client.write(bytes.subarray(at, at + size));
          if (size < bytes.length) await pause(1);
        }
      });
    });
  }).listen(0, '127.0.0.1');
  await once(link, 'listening');
  return {
    port: (link.address() as AddressInfo).port,
    struck,
    fail: (oneIn) => {
      faultsOneIn = oneIn;
    },
    heal: () => {
      faultsOneIn = Infinity;
    },
    close: async () => {
      link.close();
      for (const socket of sockets) socket.destroy();
      await once(link, 'close');
    },
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
