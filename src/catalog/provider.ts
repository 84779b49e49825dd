import type { NanoDollars } from '../ledger/contract/money.ts';
import type { WindowPeriod } from '../ledger/contract/key-records.ts';
import type { Timeouts } from '../options/resolve-options.ts';
import type {
  ApiKeySource,
  StreamUsage,
  OnDisconnect,
  OutputLimitField,
} from '../options/provider-options.ts';
import type { UpstreamLimits } from '../options/upstream-limits.ts';
import type { UsageDialect } from '../metering/usage-dialects.ts';
import type { BodyRule } from '../http/apply-body-rules.ts';
import type { Address } from './base-url.ts';
import type { Connection } from './connection.ts';
import type { PresetFields } from './preset-fields.ts';
import type { DiscoveryTerms } from './discovery-options.ts';

/** A provider's resolved options. */
export interface Provider extends Address {
  readonly name: string;
  /** Its preset, if any. */
  readonly preset: string | undefined;
  /** Sent with every request, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly authHeader: string;
  /** The prefix of the key, with its space: `'Bearer '`. */
  readonly authPrefix: string;
  /** The sources of its keys; empty without any. */
  readonly apiKeys: readonly ApiKeySource[];
  readonly streamUsage: StreamUsage;
  readonly usage: UsageDialect;
  readonly outputLimits: OutputLimits;
  /** Most tokens of an image, by prefix of the upstream model; undefined if unknown. */
  readonly imageTokens: PresetFields['imageTokens'] | undefined;
  /** Its service tiers; undefined if unknown. */
  readonly serviceTiers: PresetFields['serviceTiers'];
  /** The field with its reported cost; undefined if it is known to report none. */
  readonly reportedCost: PresetFields['reportedCost'];
  /** The reported cost is used for models without a configured cost. */
  readonly reportsAllCost: boolean;
  /** Undefined: depends on the target. */
  readonly onDisconnect: OnDisconnect | undefined;
  /** Undefined: learned from traffic. */
  readonly marksEnd: boolean | undefined;
  readonly timeouts: Timeouts;
  readonly connection: Connection;
  /** Of each of its keys, for all its models together; undefined without any. */
  readonly limits: UpstreamLimits | undefined;
  /** Combined with the rules of its targets. */
  readonly bodyRules: readonly BodyRule[];
  /** Undefined without model discovery. */
  readonly discovery: DiscoveryTerms | undefined;
  /** What it may cost in a period; undefined without a bound. */
  readonly stopAt: ProviderStop | undefined;
}

/** A provider that has cost the amount gets no requests until the period ends. */
export interface ProviderStop {
  readonly amount: NanoDollars;
  readonly per: WindowPeriod;
}

/** The output limits that a provider obeys. */
export interface OutputLimits {
  /** The first one is inserted. */
  readonly obeyed: readonly [OutputLimitField, ...OutputLimitField[]];
  /** All others are known to be ignored or rejected. */
  readonly only: boolean;
  /** They limit all output, including reasoning. */
  readonly boundAll: boolean;
}
