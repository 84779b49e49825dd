import type { Timeouts } from '../options/resolve-options.ts';
import type {
  ApiKeySource,
  StreamUsage,
  OnDisconnect,
  OutputLimitField,
} from '../options/provider-options.ts';
import type { UsageDialect } from '../metering/usage-dialects.ts';
import type { BodyRule } from '../http/apply-body-rules.ts';
import type { Address } from './base-url.ts';
import type { PresetFields } from './preset-fields.ts';
import type { DiscoveryTerms } from './discovery-options.ts';

/** A provider with everything worked out that doesn't change from request to request. */
export interface Provider extends Address {
  readonly name: string;
  /** Which preset it started from, if any. */
  readonly preset: string | undefined;
  /** Sent with every request, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly authHeader: string;
  /** What stands before the key, with its blank: `'Bearer '`. */
  readonly authPrefix: string;
  /** Where its keys come from; empty when it takes none. */
  readonly apiKeys: readonly ApiKeySource[];
  readonly streamUsage: StreamUsage;
  readonly usage: UsageDialect;
  readonly outputLimits: OutputLimits;
  /** The most tokens of an image, by how the model's name there begins; undefined where it isn't known. */
  readonly imageTokens: PresetFields['imageTokens'] | undefined;
  /** Its service tiers; undefined where none are known of. */
  readonly serviceTiers: PresetFields['serviceTiers'];
  /** Where it reports what it bills; undefined where it is known not to. */
  readonly reportedCost: PresetFields['reportedCost'];
  /** What it reports is the cost of models for which none is given. */
  readonly reportsAllCost: boolean;
  /** Undefined where it depends on the target. */
  readonly onDisconnect: OnDisconnect | undefined;
  /** Undefined where it has to be learned. */
  readonly marksEnd: boolean | undefined;
  readonly timeouts: Timeouts;
  /** Those of its targets come beside them. */
  readonly bodyRules: readonly BodyRule[];
  /** Undefined where its own list isn't asked for. */
  readonly discovery: DiscoveryTerms | undefined;
}

/** Which output limits a provider is known to obey. */
export interface OutputLimits {
  /** The first is the one to insert. */
  readonly obeyed: readonly [OutputLimitField, ...OutputLimitField[]];
  /** All others are known to be ignored or refused. */
  readonly only: boolean;
  /** They bound all that is written, reasoning too. */
  readonly boundAll: boolean;
}
