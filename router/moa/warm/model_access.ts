import type { ServedModel } from "../../served/served_model.ts";
import type { HedgeControl } from "../agent/hedge_control.ts";
import type { WarmControl } from "./warm_control.ts";

/** A model, when its prompts are warmed, and when its agents are started twice. */
export interface ModelAccess {
  readonly served: ServedModel;
  readonly warmControl: WarmControl;
  readonly hedgeControl: HedgeControl;
}
