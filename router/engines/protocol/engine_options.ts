import type { Clock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { Random } from "../../../base/random.ts";
import type { Transport } from "../../../base/transport.ts";
import type { ModelConfig } from "../../../cfgs/schema/config.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import type { EngineCapabilities, GenerateRequest } from "../engine.ts";
import { refuseDeadly } from "../guards/refuse_deadly.ts";
import type { Pool } from "../../pool/pool.ts";
import type { CalledWorker } from "../../worker/upstream_call.ts";
import { plainUrl, workerAddress, workerHeaders, workerUrl } from "../../worker/worker_access.ts";
import { hasManyIds, writeInTurns } from "../../wire/write_json.ts";
import { WorkerCall } from "../../worker/worker_call.ts";

/** Options of an engine. */
export interface EngineOptions {
  readonly config: ModelConfig;
  /** For the headers of workers. */
  readonly pool: Pick<Pool, "headers">;
  readonly transport: Transport;
  readonly clock: Clock;
  /** For ids that engines know requests by. */
  readonly random: Random;
  /** As `probe` found them; `defaultCapabilities(config)` when no worker has answered yet. */
  readonly capabilities: EngineCapabilities;
  /** Bounds the token ids that may be sent. */
  readonly tokenizer?: ModelTokenizer | undefined;
}

/** The parts of `EngineOptions` that a call to a worker needs. */
export type CallerOptions = Pick<
  EngineOptions,
  "config" | "transport" | "clock" | "capabilities" | "tokenizer" | "pool"
>;

/** One POST to a worker: the one placed, or the prefill half beside it. */
export interface WorkerPost {
  readonly at: CalledWorker;
  /** Such as `/generate`. */
  readonly path: string;
  readonly body: JsonObject;
  /** Sent instead of `body`, which is then only checked. */
  readonly sent?: JsonObject | string | undefined;
  readonly headers?: GenerateRequest["headers"];
  /** SGLang's id of the request, to be aborted before the connection is closed. */
  readonly rid?: string | undefined;
  /** The half of a pair that it goes to. */
  readonly phase?: "prefill" | "decode" | undefined;
  /** As in `WorkerCallOptions`. */
  readonly firstTokenDueMs?: number | undefined;
}

/** The call of a request to a worker, with its model's headers and limits. Throws a 400 for a deadly request. */
export function workerCall(options: CallerOptions, request: WorkerPost): WorkerCall {
  const { config, transport, clock, capabilities, tokenizer } = options;
  const { at, path, body, sent, rid, phase, firstTokenDueMs } = request;
  refuseDeadly({
    engine: config.engine,
    version: capabilities.version,
    vocabSize: tokenizer?.vocabSize,
    path,
    body,
  });
  const headers = headersFor(options, at);
  const written = sent ?? body;
  const isLong = typeof written === "object" && hasManyIds(written);
  return new WorkerCall({
    transport,
    clock,
    config,
    worker: at,
    request: {
      method: "POST",
      url: workerUrl(at.url, path),
      headers: { ...request.headers, ...headers, "content-type": "application/json" },
      body: isLong ? undefined : typeof written === "string" ? written : JSON.stringify(written),
      phase,
      connectTimeoutMs: config.connect_timeout_ms,
    },
    writing: isLong ? writeInTurns(written) : undefined,
    abort: rid === undefined ? undefined : { rids: [rid], headers },
    firstTokenDueMs,
  });
}

/** The headers that a worker gets: its model's, and its own key. */
export function headersFor(
  { config, pool }: Pick<EngineOptions, "config" | "pool">,
  { workerId, url }: Pick<CalledWorker, "workerId" | "url">,
): Readonly<Record<string, string>> {
  const known = pool.headers?.(workerId);
  if (known !== undefined) return known;
  const worker = config.workers.find((entry) =>
    typeof entry === "object" && "url" in entry && plainUrl(entry.url) === plainUrl(url)
  );
  const isKnown = typeof worker === "object" && "url" in worker;
  return workerHeaders(config, isKnown ? { ...workerAddress(worker.url), apiKey: worker.api_key } : { url });
}
