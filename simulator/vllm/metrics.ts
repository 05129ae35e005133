import { MetricsText } from "../../base/prometheus.ts";
import { pythonFloat } from "../engine/metrics.ts";
import type { Backend } from "../server/backend.ts";

/** `GET /metrics` of vLLM: the names that routers and dashboards read, with its labels. */
export function vllmMetrics(backend: Backend): string {
  const { scheduler, metrics, options } = backend;
  const { stats } = scheduler;
  const text = new MetricsText({
    labels: { engine: "0", model_name: backend.model },
    format: pythonFloat,
  });
  const count = (name: string, help: string, value: number) => text.counter(`vllm:${name}`, help, value);
  const gauge = (name: string, help: string, value: number) => text.gauge(`vllm:${name}`, help, value);
  gauge("num_requests_running", "Number of requests in model execution batches.", scheduler.running);
  gauge("num_requests_waiting", "Number of requests waiting to be processed.", scheduler.waiting);
  text.gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.", [
    [{ reason: "capacity" }, scheduler.waiting],
    [{ reason: "deferred" }, 0],
  ]);
  gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", scheduler.kvUsage);
  count(
    "prefix_cache_queries_total",
    "Prefix cache queries, in terms of number of queried tokens.",
    stats.promptTokens,
  );
  count(
    "prefix_cache_hits_total",
    "Prefix cache hits, in terms of number of cached tokens.",
    stats.cachedTokens,
  );
  count("external_prefix_cache_queries_total", "External prefix cache queries.", 0);
  count("external_prefix_cache_hits_total", "External prefix cache hits.", 0);
  count("num_preemptions_total", "Cumulative number of preemption from the engine.", stats.preemptions);
  count("prompt_tokens_total", "Number of prefill tokens processed.", stats.promptTokens);
  count(
    "prompt_tokens_cached_total",
    "Number of cached prompt tokens (local + external).",
    stats.cachedTokens,
  );
  text.counter("vllm:prompt_tokens_cached_by_source_total", "Prefix-cache hit tokens by the cache tier.", [
    [{ source: "device" }, stats.cachedTokens],
    [{ source: "host" }, 0],
    [{ source: "p2p" }, 0],
    [{ source: "disk" }, 0],
    [{ source: "external_unspecified" }, 0],
  ]);
  count("generation_tokens_total", "Number of generation tokens processed.", stats.generationTokens);
  text.counter(
    "vllm:request_success_total",
    "Count of successfully processed requests.",
    ["stop", "length", "abort", "error"].map((reason) =>
      [{ finished_reason: reason }, metrics.finished.get(reason) ?? 0] as const
    ),
  );
  count("admission_rejections_total", "Requests refused because the queue was full.", metrics.rejected);
  text.histogram("vllm:time_to_first_token_seconds", "Time to first token.", metrics.firstTokenSeconds);
  text.histogram("vllm:e2e_request_latency_seconds", "Request latency.", metrics.requestSeconds);
  text.histogram("vllm:request_queue_time_seconds", "Time in the waiting queue.", metrics.queueSeconds);
  const { pageSize, kvTokens } = scheduler.options;
  text.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", [[{
    block_size: String(pageSize),
    effective_attention_block_size: String(pageSize),
    enable_prefix_caching: "True",
    kv_cache_size_tokens: String(kvTokens),
    num_gpu_blocks: String(Math.floor(kvTokens / pageSize)),
    simulated_cost: typeof options.cost === "string" ? options.cost : "parameters",
  }, 1]]);
  return text.toString();
}
