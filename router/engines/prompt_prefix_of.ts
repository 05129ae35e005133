import type { Prompt } from "./engine.ts";
import { PromptPrefix } from "../pool/prompt_prefix.ts";
import type { CacheReport } from "../worker/placement.ts";

/** A prompt as policies look at it: texts and conversations as clients would write them in a body. */
export function promptPrefixOf(prompt: Prompt): PromptPrefix {
  switch (prompt.kind) {
    case "tokens":
      return PromptPrefix.ofTokens(prompt.ids);
    case "text":
      return PromptPrefix.ofJson(prompt.text);
    case "chat":
      return PromptPrefix.ofJson(prompt.messages);
  }
}

/** An engine's figures of one prompt, if it says what it has found in its cache. */
export function cacheReportOf({ promptTokens, cachedTokens }: {
  readonly promptTokens: number;
  readonly cachedTokens: number | undefined;
}): CacheReport | undefined {
  return cachedTokens === undefined ? undefined : { promptTokens, cachedTokens };
}
