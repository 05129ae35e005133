import type { Json } from "../../../base/json.ts";
import type { Prompt } from "../../engines/engine.ts";

/** A prompt as it was sent, as JSON; `null` before that. */
export function promptBody(prompt: Prompt | undefined): Json {
  if (prompt === undefined) return null;
  if (prompt.kind === "tokens") return { kind: "tokens", ids: [...prompt.ids] };
  if (prompt.kind === "text") return { kind: "text", text: prompt.text };
  return { kind: "chat", messages: [...prompt.messages] };
}
