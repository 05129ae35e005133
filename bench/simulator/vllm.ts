import { unixSeconds } from "../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { Backend, type BackendHooks } from "./backend.ts";
import type { Collector } from "./choice.ts";
import {
  detailReply,
  emptyReply,
  flag,
  jsonReply,
  Refusal,
  type Reply,
  type ServedRequest,
  textReply,
} from "./reply.ts";
import type { SimulatorOptions } from "./simulator_types.ts";
import { chat, chatPrompt } from "./vllm_chat.ts";
import { completions } from "./vllm_completions.ts";
import { busy, ENGINE_DEATH, refuse, vllmError } from "./vllm_errors.ts";
import { vllmMetrics } from "./vllm_metrics.ts";
import { modelOf, parseBody } from "./vllm_request.ts";

/** Version that is emulated unless another one is asked for. */
export const VLLM_VERSION = "0.32.0";

/** How long the API server outlives its engine: 0.6 to 4 s. */
const VLLM_DEATH_MS = 2000;

/** A protocol in front of a backend. */
export interface Protocol {
  readonly backend: Backend;
  /** Answers a request; `Refusal`s that it throws are answers, too. */
  serve(request: ServedRequest): Promise<Reply>;
  /** True for requests that make tokens: the ones that injected faults are meant for. */
  generates(request: ServedRequest): boolean;
  /** The body of a plain 500. */
  failure(status: 500 | 503): Reply;
  /** The engine has died; undefined where requests just hang until the process follows, `deathMs` later. */
  dead?(): void;
  readonly deathMs: number;
}

/** The requests that a vLLM server works on. */
export class VllmRequests {
  readonly #backend: Backend;
  readonly #live = new Map<string, Set<Collector>>();

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** The header beats the field; else a random id. */
  idOf(request: ServedRequest, body: JsonObject): string {
    const field = body["request_id"];
    return request.headers["x-request-id"] ??
      (typeof field === "string" ? field : this.#backend.randomHex(16));
  }

  /**
   * Lets a request in after its time in the front end; the client leaving aborts it. Returns what to call at its end.
   * Throws the 503 of a full queue and the 400 of a wrong data-parallel rank.
   */
  async enter(request: ServedRequest, id: string, collector: Collector): Promise<() => void> {
    const rank = request.headers["x-data-parallel-rank"];
    if (rank !== undefined && Number(rank) !== 0) {
      throw refuse(`data_parallel_rank ${rank} is out of range [0, 1).`);
    }
    if (this.#backend.full) {
      this.#backend.metrics.rejected++;
      throw busy();
    }
    let gone = false;
    request.onClose = () => {
      gone = true;
      collector.abort(this.#backend.scheduler);
      release();
    };
    const same = this.#live.get(id) ?? new Set();
    this.#live.set(id, same.add(collector));
    const release = () => {
      same.delete(collector);
      if (same.size === 0 && this.#live.get(id) === same) this.#live.delete(id);
    };
    await this.#backend.arrive();
    if (gone) throw new Refusal(emptyReply(499));
    return release;
  }

  /** Tells all requests that the engine has died. */
  fail(): void {
    for (const same of this.#live.values()) {
      for (const { choices } of same) {
        for (const choice of choices) choice.fail({ status: 500, message: ENGINE_DEATH });
      }
    }
  }

  /** Aborts by id; returns how many requests were found. */
  abort(ids: readonly string[]): number {
    let count = 0;
    for (const id of ids) {
      for (const collector of this.#live.get(id) ?? []) {
        collector.abort(this.#backend.scheduler);
        count++;
      }
    }
    return count;
  }
}

/** A simulated vLLM server. */
export function vllmProtocol(options: SimulatorOptions, hooks: BackendHooks): Protocol {
  const backend = new Backend(options, {
    version: VLLM_VERSION,
    pageSize: 16,
    maxRunning: 1024,
    policy: "mixed",
  }, hooks);
  const requests = new VllmRequests(backend);
  const get = (reply: () => Reply) => ({ GET: () => Promise.resolve(reply()) });
  const post = (serve: (request: ServedRequest) => Promise<Reply>) => ({ POST: serve });
  const scaleOut = post(() =>
    Promise.resolve(vllmError(
      403,
      "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
      "PermissionDeniedError",
    ))
  );
  const routes: Record<string, Partial<Record<string, (request: ServedRequest) => Promise<Reply>>>> = {
    "/v1/completions": post((request) => completions(request, parseBody(request), backend, requests)),
    "/v1/chat/completions": post((request) => chat(request, parseBody(request), backend, requests)),
    "/v1/completions/render": scaleOut,
    "/v1/chat/completions/render": scaleOut,
    "/inference/v1/generate": scaleOut,
    "/tokenize": post((request) => Promise.resolve(tokenize(parseBody(request), backend))),
    "/detokenize": post((request) => Promise.resolve(detokenize(parseBody(request), backend))),
    "/reset_prefix_cache": post(() => {
      backend.scheduler.cache.clear();
      return Promise.resolve(jsonReply(200, { success: backend.scheduler.running === 0 }));
    }),
    "/abort_requests": post((request) => {
      const ids = parseBody(request)["request_ids"];
      const names = Array.isArray(ids) ? ids.filter((id) => typeof id === "string") : [];
      return Promise.resolve(jsonReply(200, { status: "aborted", aborted: requests.abort(names) }));
    }),
    "/v1/models": get(() => jsonReply(200, models(backend))),
    "/health": get(() => emptyReply()),
    "/ping": { ...get(() => emptyReply()), ...post(() => Promise.resolve(emptyReply())) },
    "/version": get(() => jsonReply(200, { version: backend.version })),
    "/load": get(() => jsonReply(200, { server_load: 0 })),
    "/metrics": get(() => textReply(200, vllmMetrics(backend), "text/plain; version=1.0.0; charset=utf-8")),
  };
  return {
    backend,
    generates: ({ path }) => path === "/v1/completions" || path === "/v1/chat/completions",
    dead: () => requests.fail(),
    deathMs: VLLM_DEATH_MS,
    failure: (status) =>
      status === 503 ? busy().reply : vllmError(
        500,
        ENGINE_DEATH,
        "InternalServerError",
      ),
    serve(request) {
      const route = routes[request.path];
      if (route === undefined) return Promise.resolve(detailReply(404));
      const serve = route[request.method];
      return serve === undefined
        ? Promise.resolve(detailReply(405, Object.keys(route).join(", ")))
        : serve(request);
    },
  };
}

function models(backend: Backend): JsonObject {
  const created = unixSeconds(backend.options.clock);
  return {
    object: "list",
    data: backend.options.models.map((id) => ({
      id,
      object: "model",
      created,
      owned_by: "vllm",
      root: backend.model,
      parent: null,
      max_model_len: backend.contextTokens,
      permission: [{
        id: `modelperm-${backend.randomHex(16)}`,
        object: "model_permission",
        created,
        allow_create_engine: false,
        allow_sampling: true,
        allow_logprobs: true,
        allow_search_indices: false,
        allow_view: true,
        allow_fine_tuning: false,
        organization: "*",
        group: null,
        is_blocking: false,
      }],
    })),
  };
}

function tokenize(body: JsonObject, backend: Backend): Reply {
  modelOf(body, backend);
  const text = body["prompt"];
  const ids = typeof text === "string" ? backend.tokenizer.encode(text) : chatPrompt(body, backend);
  return jsonReply(200, {
    count: ids.length,
    max_model_len: backend.contextTokens,
    tokens: ids,
    token_strs: flag(body, "return_token_strs")
      ? ids.map((id) => byteLevel(backend.tokenizer.decode([id])))
      : null,
  });
}

function detokenize(body: JsonObject, backend: Backend): Reply {
  modelOf(body, backend);
  const tokens = isJsonObject(body) ? body["tokens"] : undefined;
  const ids = Array.isArray(tokens) ? tokens.filter((id) => typeof id === "number") : [];
  return jsonReply(200, { prompt: backend.tokenizer.decode(ids) });
}

/** The printable form of byte-level tokens. */
function byteLevel(text: string): string {
  return text.replaceAll(" ", "\u0120").replaceAll("\n", "\u010a").replaceAll("\t", "\u0109");
}
