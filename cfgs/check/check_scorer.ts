import type { Config } from "../schema/config.ts";
import { type ConfigFinding, findingAt } from "../schema/explain.ts";
import { type ScorerConfig, scorerSchema } from "../schema/scorer.ts";

type EmbedderName = ScorerConfig["embedder"];

const LOADED: readonly EmbedderName[] = ["auto", "onnx"];

/** The embedders that look at a setting. */
const USERS: readonly (readonly [keyof ScorerConfig, readonly EmbedderName[]])[] = [
  ["url", ["http"]],
  ["api_key", ["http"]],
  ["model", [...LOADED, "http"]],
  ["span", [...LOADED, "http"]],
  ["whitening", [...LOADED, "http"]],
  ["revision", LOADED],
  ["file", LOADED],
  ["threads", LOADED],
  ["max_cached_tokens", LOADED],
];

const unset = scorerSchema.parse({});

/** Says what the embedder needs and has not, and which settings it does not look at. */
export function checkScorer({ scorer }: Config): ConfigFinding[] {
  const { embedder, url } = scorer;
  if (embedder === "http" && url === undefined) {
    return [findingAt(["scorer", "url"], 'is missing: embedder "http" needs the address of an endpoint')];
  }
  return USERS.filter(([field, users]) => scorer[field] !== unset[field] && !users.includes(embedder))
    .map(([field, [only]]) => {
      const advice = field === "url" ? `: set embedder to "${only}"` : "";
      const message = `has no effect with embedder "${embedder}"${advice}`;
      return findingAt(["scorer", field], message, { value: scorer[field], severity: "warning" });
    });
}
