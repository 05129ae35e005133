import type { Json, JsonObject } from "../../base/json.ts";

/** One message of a conversation, as OpenAI's API has it; unknown fields are kept. */
export type ChatMessage = { role: string; content: Json } & JsonObject;
