import type { Clock } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { Spans } from "../../tracing/spans.ts";
import type { Transport } from "../../../base/transport.ts";
import type { ConfigOrigins } from "../../../cfgs/load/config_origins.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import type { Admission } from "./admission.ts";
import type { Keys } from "./auth.ts";
import type { Drain } from "./drain.ts";
import type { KeyStore } from "../../replicas/key_store.ts";
import type { KeyLimits } from "./key_limits.ts";
import type { Sites } from "./sites.ts";
import type { Metrics, ThreadCounts } from "../metrics/metrics.ts";
import type { RunArchive } from "../../archive/run_archive.ts";
import type { Moa } from "../../moa/run/moa.ts";
import type { Relay } from "../../relay/relay_types.ts";
import type { Fleet } from "../../served/fleet.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** The parts of a router below its HTTP surface. */
export interface RouterServices {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  /** By name; grows as models are learned from workers. */
  readonly models: ReadonlyMap<string, ServedModel>;
  /** Undefined where all models stand in the configuration. */
  readonly fleet?: Fleet | undefined;
  readonly moa: Moa;
  /** Undefined where runs are kept in memory alone. */
  readonly archive?: RunArchive | undefined;
  /** Undefined where nobody knows where the configuration is from. */
  readonly origins?: ConfigOrigins | undefined;
  /** Undefined where no traces are recorded. */
  readonly spans?: Spans | undefined;
}

/** Everything that HTTP handlers may use. */
export interface HttpServices extends RouterServices {
  readonly relay: Relay;
  readonly admission: Admission;
  readonly drain: Drain;
  readonly keys: Keys;
  /** Undefined where no key has limits. */
  readonly limits?: KeyLimits | undefined;
  /** Undefined where each replica counts on its own. */
  readonly keyStore?: KeyStore | undefined;
  readonly sites: Sites;
  readonly audit: boolean;
  readonly metrics: Metrics;
  /** Numbers of the threads that serve, where this one does not. */
  readonly threadCounts?: (() => Promise<readonly ThreadCounts[]>) | undefined;
  /** For ids. */
  readonly random: Random;
  /** Start of the router, as unix time in seconds. */
  readonly startedAt: number;
}
