import type { Clock } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { Transport } from "../../../base/transport.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import type { Moa } from "../../moa/run/moa.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Everything that a router consists of; HTTP handlers get no more than this. */

export interface RouterServices {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly models: ReadonlyMap<string, ServedModel>;
  readonly moa: Moa;
}
