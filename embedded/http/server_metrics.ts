import type { GeneratorCounts } from "../scheduler/generator.ts";

/** `GET /metrics`: vLLM's names for what routers and dashboards read. */
export function metricsText(model: string, counts: GeneratorCounts): string {
  const labels = `engine="0",model_name="${model.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  const lines: string[] = [];
  const write = (type: "gauge" | "counter", name: string, help: string, value: number, more = "") => {
    lines.push(`# HELP vllm:${name} ${help}`, `# TYPE vllm:${name} ${type}`);
    lines.push(`vllm:${name}{${labels}${more}} ${value}`);
  };
  write("gauge", "num_requests_running", "Sequences in the batch.", counts.running);
  write("gauge", "num_requests_waiting", "Sequences that wait for a place.", counts.waiting);
  write(
    "gauge",
    "kv_cache_usage_perc",
    "Part of the KV cache that is in use; 1 is all of it.",
    counts.cacheCapacityTokens === 0 ? 0 : counts.cachedTokens / counts.cacheCapacityTokens,
  );
  write("counter", "prompt_tokens_total", "Tokens of prompts.", counts.promptTokens);
  write("counter", "prompt_tokens_cached_total", "Of them, found in the cache.", counts.promptTokensCached);
  write("counter", "prefix_cache_queries_total", "Tokens looked for in the cache.", counts.promptTokens);
  write("counter", "prefix_cache_hits_total", "Tokens found in the cache.", counts.promptTokensCached);
  write("counter", "generation_tokens_total", "Tokens generated.", counts.generatedTokens);
  write(
    "gauge",
    "cache_config_info",
    "The cache: every single token of a prefix is found again.",
    1,
    `,block_size="1",enable_prefix_caching="True",kv_cache_size_tokens="${counts.cacheCapacityTokens}"`,
  );
  return `${lines.join("\n")}\n`;
}
