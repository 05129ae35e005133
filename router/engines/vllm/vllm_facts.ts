import { isJsonObject } from "../../../base/json.ts";

/** Facts about a vLLM server's prefix cache, from its metrics. */
export interface CacheFacts {
  /** Tokens of the smallest part of a prompt that is ever found again. */
  readonly blockTokens: number | undefined;
  /** False when the server was started without prefix caching. */
  readonly caches: boolean;
}

/** Reads `vllm:cache_config_info` of `GET /metrics`; undefined when it is not there. */
export function cacheFacts(metrics: string): CacheFacts | undefined {
  const labels = /^vllm:cache_config_info\{(.*)\}/m.exec(metrics)?.[1];
  if (labels === undefined) return undefined;
  const label = (name: string) => new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1];
  const count = (name: string) => {
    const value = Number(label(name));
    return Number.isInteger(value) && value > 0 ? value : undefined;
  };
  return {
    blockTokens: count("cache_hit_alignment_tokens") ?? count("block_size"),
    caches: label("enable_prefix_caching") !== "False",
  };
}

/** True when `GET /server_info?config_format=json` (development mode only) tells of `--scheduling-policy priority`. */
export function schedulesByPriority(serverInfo: unknown): boolean {
  const config = isJsonObject(serverInfo) ? serverInfo.vllm_config : undefined;
  const scheduler = isJsonObject(config) ? config.scheduler_config : undefined;
  return isJsonObject(scheduler) && scheduler.policy === "priority";
}
