import type { Json, JsonObject } from "../../base/json.ts";

/** One message of a conversation, as OpenAI's API has it; unknown fields are kept. */
export type ChatMessage = { role: string; content: Json } & JsonObject;

/** Options of a chat template. */
export interface RenderOptions {
  /** Variables of the template, such as `enable_thinking`. */
  readonly templateArguments?: Readonly<Record<string, Json>> | undefined;
}
