import { unixSeconds } from "../../base/clock.ts";
import type { JsonObject } from "../../base/json.ts";
import { MetricsText } from "../../base/prometheus.ts";
import { pythonFloat } from "../engine/metrics.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import { BOOTSTRAP_PORT } from "../pd/role.ts";
import type { Backend } from "../server/backend.ts";

/** `GET /model_info` and `/get_model_info`. */
export function modelInfo(backend: Backend): JsonObject {
  const version = versionNumber(backend.version);
  const sparse = version >= SGLANG.sparseShapes;
  return {
    model_path: backend.model,
    ...(sparse ? { served_model_name: backend.model } : {}),
    tokenizer_path: backend.options.tokenizerPath ?? backend.model,
    is_generation: true,
    preferred_sampling_params: null,
    weight_version: "default",
    ...(sparse ? { load_format: "auto", reasoning_parser: null, tool_call_parser: null } : {}),
    ...(version >= SGLANG.newest ? { disaggregation_mode: backend.pd?.role ?? "null" } : {}),
    ...(version < SGLANG.errorEvents ? {} : {
      has_image_understanding: false,
      has_audio_understanding: false,
      model_type: "qwen3",
      architectures: ["Qwen3ForCausalLM"],
    }),
  };
}

/** True when the events of `/generate` hold only what is new. */
export function streamsIncrementally(backend: Backend): boolean {
  return backend.options.incrementalStream === true &&
    versionNumber(backend.version) >= SGLANG.incrementalStream;
}

/** `GET /server_info` and `/get_server_info`: the part of the arguments and states that clients read. */
export function serverInfo(backend: Backend): JsonObject {
  const { pageSize, kvTokens, maxRunning, maxBatchedTokens } = backend.scheduler.options;
  const common = {
    model_path: backend.model,
    tokenizer_path: backend.options.tokenizerPath ?? backend.model,
    skip_tokenizer_init: false,
    context_length: null,
    served_model_name: backend.model,
    page_size: pageSize,
    chunked_prefill_size: maxBatchedTokens,
    max_running_requests: null,
    schedule_policy: "fcfs",
    tp_size: 1,
    dp_size: backend.options.dpSize ?? 1,
    pp_size: 1,
    enable_dp_attention: false,
    enable_cache_report: true,
    enable_metrics: true,
    incremental_streaming_output: streamsIncrementally(backend),
    disaggregation_mode: backend.pd?.role ?? "null",
    disaggregation_bootstrap_port: backend.options.pd?.bootstrapPort ?? BOOTSTRAP_PORT,
  };
  return {
    ...common,
    status: "ready",
    max_total_num_tokens: kvTokens,
    max_req_input_len: backend.contextTokens - 6,
    internal_states: [{
      ...common,
      last_gen_throughput: 0,
      memory_usage: {
        weight: 0,
        kvcache: 0,
        token_capacity: kvTokens,
        graph: versionNumber(backend.version) >= SGLANG.sparseShapes ? {} : 0,
      },
      effective_max_running_requests_per_dp: maxRunning,
    }],
    version: backend.version,
  };
}

/** `GET /v1/models`. */
export function modelCard(id: string, backend: Backend): JsonObject {
  return {
    id,
    object: "model",
    created: unixSeconds(backend.options.clock),
    owned_by: "sglang",
    root: id,
    ...(versionNumber(backend.version) >= SGLANG.errorEvents ? { parent: null } : {}),
    max_model_len: backend.contextTokens,
    // Not SGLang's: so that no figure taken here is thought to be an engine's.
    simulated: true,
  };
}

/** `GET /v1/loads`. */
export function loads(backend: Backend): JsonObject {
  const { scheduler } = backend;
  const queues = backend.pd?.queues;
  const { kvTokens, maxRunning } = scheduler.options;
  const used = scheduler.usedTokens;
  const now = backend.unixTime();
  return {
    timestamp: new Date(now * 1000).toISOString().replace("Z", "+00:00"),
    version: backend.version,
    accelerator: null,
    num_accelerators: 1,
    loads: [{
      timestamp: now,
      dp_rank: 0,
      num_running_reqs: scheduler.running,
      num_waiting_reqs: scheduler.waiting,
      num_waiting_uncached_tokens: 0,
      num_used_tokens: used,
      num_total_tokens: used,
      num_active_tokens: used,
      ...(versionNumber(backend.version) >= SGLANG.newest ? { num_prealloc_ready_tokens: 0 } : {}),
      max_total_num_tokens: kvTokens,
      max_running_requests: maxRunning,
      token_usage: Math.round(used / kvTokens * 10_000) / 10_000,
      gen_throughput: 0,
      cache_hit_rate: 0,
      utilization: 0,
      total_prefill_uncached_tokens: scheduler.stats.promptTokens - scheduler.stats.cachedTokens,
      total_prefill_busy_us: 0,
      decode_moments: backend.pd?.role === "prefill" ? null : [0, 0, 0, 0, 0, 0],
      memory: { weight_gb: 0, kv_cache_gb: 0, graph_gb: 0, token_capacity: kvTokens },
      disaggregation: {
        mode: backend.pd?.role ?? "null",
        prefill_bootstrap_queue_reqs: queues?.bootstrap ?? 0,
        prefill_inflight_queue_reqs: queues?.inflight ?? 0,
        decode_prealloc_queue_reqs: queues?.prealloc ?? 0,
        decode_transfer_queue_reqs: queues?.transfer ?? 0,
        decode_retracted_queue_reqs: 0,
        kv_transfer_speed_gb_s: 0,
        kv_transfer_latency_ms: 0,
      },
      queues: { waiting: scheduler.waiting, grammar: 0, paused: 0, retracted: 0, prealloc_ready: 0 },
    }],
  };
}

/** `GET /get_load`; gone in 0.5.23. */
export function load(backend: Backend): JsonObject[] {
  const { scheduler } = backend;
  const version = versionNumber(backend.version);
  const sparse = version >= SGLANG.sparseShapes;
  return [{
    ...(sparse ? {} : { rid: null }),
    ...(sparse || version < SGLANG.errorEvents ? {} : { http_worker_ipc: null }),
    dp_rank: sparse ? 0 : null,
    num_reqs: backend.load,
    num_waiting_reqs: scheduler.waiting,
    num_tokens: scheduler.usedTokens,
    ...(sparse ? { num_pending_tokens: 0 } : {}),
    ...(version < SGLANG.errorEvents ? {} : { ts_tic: backend.options.clock.now() / 1000 }),
  }];
}

/** `GET /metrics` of SGLang: the names that routers and dashboards read, with its labels. */
export function sglangMetrics(backend: Backend): string {
  const { scheduler, metrics } = backend;
  const { stats } = scheduler;
  const { kvTokens, pageSize } = scheduler.options;
  const version = versionNumber(backend.version);
  const named = version >= SGLANG.errorEvents;
  const engineType = named ? backend.pd?.role ?? "unified" : "unified";
  const engine = { engine_type: engineType, model_name: backend.model };
  const rank = { ...engine, ...(named ? { moe_ep_rank: "0" } : {}), pp_rank: "0", tp_rank: "0" };
  const text = new MetricsText({ format: pythonFloat });
  const gauge = (name: string, help: string, value: number) =>
    text.gauge(`sglang:${name}`, help, [[rank, value]]);
  const count = (name: string, help: string, labels: Record<string, string>, value: number) =>
    text.counter(`sglang:${name}`, help, [[{ ...labels, ...engine }, value]]);
  gauge("max_total_num_tokens", "Tokens in the KV cache.", kvTokens);
  gauge("page_size", "Tokens per page.", pageSize);
  gauge("context_len", "Context length.", backend.contextTokens);
  gauge("num_running_reqs", "The number of running requests.", scheduler.running);
  gauge("num_queue_reqs", "The number of requests in the waiting queue.", scheduler.waiting);
  gauge("num_grammar_queue_reqs", "The number of requests in the grammar waiting queue.", 0);
  gauge("gen_throughput", "The generation throughput (token/s).", 0);
  gauge("cache_hit_rate", "The prefix cache hit rate.", 0);
  gauge("token_usage", "The token usage.", Math.round(scheduler.kvUsage * 100) / 100);
  gauge("num_used_tokens", "The number of used tokens.", scheduler.usedTokens);
  gauge("kv_evictable_tokens", "Tokens that could be evicted.", scheduler.cache.evictableTokens);
  gauge("utilization", "The utilization.", 0);
  if (backend.pd !== undefined) {
    const { queues } = backend.pd;
    const first = version >= SGLANG.sparseShapes ? "bootstrap" : "prealloc";
    gauge(`num_prefill_${first}_queue_reqs`, "Requests that wait for decode.", queues.bootstrap);
    gauge("num_prefill_inflight_queue_reqs", "Requests whose KV is being sent.", queues.inflight);
    gauge("num_decode_prealloc_queue_reqs", "Requests that wait for memory.", queues.prealloc);
    gauge("num_decode_transfer_queue_reqs", "Requests that wait for their KV.", queues.transfer);
    count("num_bootstrap_failed_reqs_total", "Failed bootstraps.", {}, queues.bootstrapFailed);
    count("num_transfer_failed_reqs_total", "Failed transfers.", {}, queues.transferFailed);
  }
  const whole = { is_streaming: "false" };
  count("prompt_tokens_total", "Number of prefill tokens processed.", whole, stats.promptTokens);
  count("generation_tokens_total", "Number of generation tokens processed.", whole, stats.generationTokens);
  count("num_requests_total", "Number of requests processed.", whole, stats.requests);
  count(
    "cached_tokens_total",
    "Number of cached prompt tokens.",
    { cache_source: "device" },
    stats.cachedTokens,
  );
  count("num_aborted_requests_total", "Number of requests aborted.", {}, stats.aborted);
  const histograms = new MetricsText({
    labels: { engine_type: engineType, is_streaming: "false", model_name: backend.model },
    format: pythonFloat,
  });
  histograms.histogram(
    "sglang:time_to_first_token_seconds",
    "Time to first token.",
    metrics.firstTokenSeconds,
  );
  histograms.histogram("sglang:e2e_request_latency_seconds", "End-to-end latency.", metrics.requestSeconds);
  const queue = new MetricsText({ labels: rank, format: pythonFloat });
  queue.histogram("sglang:queue_time_seconds", "Time in the queue.", metrics.queueSeconds);
  return text.toString() + histograms.toString() + queue.toString();
}
