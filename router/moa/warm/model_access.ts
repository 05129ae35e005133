import type { ServedModel } from "../../served/served_model.ts";
import type { WarmControl } from "./warm_control.ts";

/** A model, and when its prompts are warmed. */
export interface ModelAccess {
  readonly served: ServedModel;
  readonly warmControl: WarmControl;
}
