import type { Child } from './child.ts';

/** A proxy that runs, and what a client must send to be let through. */
export interface Proxy {
  readonly name: string;
  readonly port: number;
  readonly path: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether its code is compiled or loaded while it runs, so that its first requests are slower than all others. */
  readonly isSlowAtFirst: boolean;
  /** How many streams it can hold open in reasonable time, where that is less than the benchmark would like. */
  readonly mostStreams?: number;
  /** Of the process so far, in µs. */
  cpuUs(): Promise<number>;
  rssBytes(): Promise<number>;
  /** Only a process of Node's answers questions: its heap, the longest block of its event loop, what it allocates. */
  readonly node: Child | undefined;
  stop(): Promise<void>;
}

export interface Context {
  readonly upstreamPort: number;
  /** What the provider at that port must show; undefined where it speaks plain HTTP. */
  readonly caFile?: string;
  /** Of the provider's ports that speak TLS. */
  readonly certificate: string;
  readonly redisUrl: string;
  readonly folder: string;
  /** The core that the proxy has to itself; none on a machine with one. */
  readonly core: number;
  /** More flags of Node for the proxy. */
  readonly nodeFlags?: readonly string[];
}
