import { MetricsText } from "../../base/prometheus.ts";
import type { GeneratorCounts } from "../scheduler/generator.ts";

/** `GET /metrics`: vLLM's names for what routers and dashboards read. */
export function metricsText(model: string, counts: GeneratorCounts): string {
  const { cachedTokens, cacheCapacityTokens: capacity, promptTokens, promptTokensCached } = counts;
  const text = new MetricsText({ labels: { engine: "0", model_name: model } });
  text.gauge("vllm:num_requests_running", "Sequences in the batch.", counts.running);
  text.gauge("vllm:num_requests_waiting", "Sequences that wait for a place.", counts.waiting);
  text.gauge(
    "vllm:kv_cache_usage_perc",
    "Part of the KV cache that is in use; 1 is all of it.",
    capacity === 0 ? 0 : cachedTokens / capacity,
  );
  text.counter("vllm:prompt_tokens_total", "Tokens of prompts.", promptTokens);
  text.counter("vllm:prompt_tokens_cached_total", "Of them, found in the cache.", promptTokensCached);
  text.counter("vllm:prefix_cache_queries_total", "Tokens looked for in the cache.", promptTokens);
  text.counter("vllm:prefix_cache_hits_total", "Tokens found in the cache.", promptTokensCached);
  text.counter("vllm:generation_tokens_total", "Tokens generated.", counts.generatedTokens);
  text.gauge("vllm:cache_config_info", "The cache: every single token of a prefix is found again.", [[{
    block_size: "1",
    enable_prefix_caching: "True",
    kv_cache_size_tokens: String(capacity),
  }, 1]]);
  return text.toString();
}
