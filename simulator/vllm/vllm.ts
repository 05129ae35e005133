import { unixSeconds } from "../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { Backend, type BackendHooks } from "../server/backend.ts";
import type { Protocol } from "../server/protocol.ts";
import {
  detailReply,
  emptyReply,
  flag,
  jsonReply,
  type Reply,
  type ServedRequest,
  textReply,
} from "../server/reply.ts";
import type { SimulatorOptions } from "../server/simulator_options.ts";
import { chatPrompt, vllmChat } from "./chat.ts";
import { vllmCompletions } from "./completions.ts";
import { busy, ENGINE_DEATH, vllmError } from "./errors.ts";
import { vllmMetrics } from "./metrics.ts";
import { modelOf, parseVllmBody } from "./request.ts";
import { VllmRequests } from "./requests.ts";

/** Version that is emulated unless another one is asked for. */
export const VLLM_VERSION = "0.32.0";

/** Time by which the API server outlives its engine: 0.6 to 4 s. */
const VLLM_DEATH_MS = 2000;

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
    "/v1/completions": post((request) => vllmCompletions(request, parseVllmBody(request), backend, requests)),
    "/v1/chat/completions": post((request) => vllmChat(request, parseVllmBody(request), backend, requests)),
    "/v1/completions/render": scaleOut,
    "/v1/chat/completions/render": scaleOut,
    "/inference/v1/generate": scaleOut,
    "/tokenize": post((request) => Promise.resolve(tokenize(parseVllmBody(request), backend))),
    "/detokenize": post((request) => Promise.resolve(detokenize(parseVllmBody(request), backend))),
    "/reset_prefix_cache": post(() => {
      backend.scheduler.cache.clear();
      return Promise.resolve(jsonReply(200, { success: backend.scheduler.running === 0 }));
    }),
    "/abort_requests": post((request) => {
      const ids = parseVllmBody(request)["request_ids"];
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
      root: backend.options.tokenizerPath ?? backend.model,
      parent: null,
      max_model_len: backend.contextTokens,
      // Not vLLM's: so that no figure taken here is thought to be an engine's.
      simulated: true,
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
