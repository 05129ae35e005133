import type { Clock } from "../../base/clock.ts";
import type { Random } from "../../base/random.ts";
import type { Transport } from "../../base/transport.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import type { EngineCapabilities, GenerateRequest } from "./engine.ts";
import { refuseDeadly } from "./guards.ts";
import type { Pool } from "../pool/pool_types.ts";
import type { Placement } from "../worker/placement.ts";
import { workerHeaders, workerUrl } from "../worker/worker_access.ts";
import type { WorkerCallOptions } from "../worker/worker_call.ts";

/** What an engine is made of. */
export interface EngineOptions {
  readonly config: ModelConfig;
  /** For the headers of workers that came later than the configuration. */
  readonly pool: Pick<Pool, "workers" | "headers">;
  readonly transport: Transport;
  readonly clock: Clock;
  /** For ids that engines know requests by. */
  readonly random: Random;
  /** As `probe` found them; `defaultCapabilities(config)` when no worker has answered yet. */
  readonly capabilities: EngineCapabilities;
  /** Bounds the token ids that may be sent. */
  readonly tokenizer?: ModelTokenizer | undefined;
}

/** What it takes to call a worker. */
export type CallerOptions = Pick<
  EngineOptions,
  "config" | "transport" | "clock" | "capabilities" | "tokenizer" | "pool"
>;

/** The URL, headers and limits of a call to a worker: the one placed, or the prefill half beside it. */
export function callOptions(
  options: CallerOptions,
  at: Pick<Placement, "url">,
  path: string,
  body: WorkerCallOptions["body"],
  signal: AbortSignal,
  headers: GenerateRequest["headers"] = {},
): WorkerCallOptions {
  const { config, transport, clock, capabilities, tokenizer } = options;
  refuseDeadly({
    engine: config.engine,
    version: capabilities.version,
    vocabSize: tokenizer?.vocabSize,
    path,
    body,
  });
  return {
    transport,
    clock,
    config,
    workerUrl: at.url,
    url: workerUrl(at.url, path),
    headers: { ...headers, ...headersFor(options, at.url) },
    body,
    signal,
  };
}

/** The headers that a worker gets: its model's, and its own key. */
export function headersFor(
  options: Pick<EngineOptions, "config" | "pool">,
  url: string,
): Readonly<Record<string, string>> {
  // Workers that came later are not in the configuration.
  const member = options.pool.workers().find((one) => sameBase(one.url, url));
  const known = member === undefined ? undefined : options.pool.headers?.(member.id);
  if (known !== undefined) return known;
  const worker = options.config.workers.find((entry) =>
    typeof entry === "object" && "url" in entry && sameBase(entry.url, url)
  );
  const apiKey = typeof worker === "object" && "url" in worker ? worker.api_key : undefined;
  return workerHeaders(options.config, { url, ...(apiKey === undefined ? {} : { apiKey }) });
}

function sameBase(a: string, b: string): boolean {
  return a.replace(/\/+$/, "") === b.replace(/\/+$/, "");
}
