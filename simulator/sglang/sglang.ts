import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import { Backend, type BackendHooks } from "../server/backend.ts";
import type { Protocol } from "../server/protocol.ts";
import {
  detailReply,
  emptyReply,
  jsonReply,
  type Reply,
  type ServedRequest,
  textReply,
} from "../server/reply.ts";
import type { SimulatorOptions } from "../server/simulator_options.ts";
import { internalError, openaiError } from "./errors.ts";
import { generate } from "./generate.ts";
import { load, loads, modelCard, modelInfo, serverInfo, sglangMetrics } from "./info.ts";
import { sglangChat, sglangCompletions } from "./openai.ts";
import { parseSglangBody } from "./request.ts";
import { SglangRequests } from "./requests.ts";

/** Version that is emulated unless another one is asked for. */
export const SGLANG_VERSION = "0.5.23";

const FLUSHED =
  "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n";

/** Time for which the HTTP process of a dead scheduler lives on. */
const DEATH_MS = 5000;

/** Duration of a health check: it waits for a token of its own. */
const HEALTH_MS = 1002;

/** A simulated SGLang server, alone or as one half of a pair. */
export function sglangProtocol(options: SimulatorOptions, hooks: BackendHooks): Protocol {
  const backend = new Backend(options, {
    version: SGLANG_VERSION,
    pageSize: 1,
    maxRunning: 2048,
    policy: "prefill_first",
  }, hooks);
  const requests = new SglangRequests(backend);
  const routes: Routes = {
    ...apiRoutes(backend, requests),
    ...stateRoutes(backend),
    ...versionRoutes(backend),
  };
  const generating = new Set(["/generate", "/v1/completions", "/v1/chat/completions"]);
  return {
    backend,
    generates: ({ path }) => generating.has(path),
    deathMs: DEATH_MS,
    failure: (status) =>
      status === 500
        ? internalError()
        : openaiError(503, "The request queue is full.", "ServiceUnavailableError"),
    serve(request) {
      if (request.path.startsWith("/v1/models/")) return Promise.resolve(modelReply(request, backend));
      const route = routes[request.path];
      if (route === undefined) return Promise.resolve(detailReply(404));
      const serve = route[request.method];
      return serve === undefined
        ? Promise.resolve(detailReply(405, Object.keys(route).join(", ")))
        : serve(request);
    },
  };
}

type Routes = Readonly<Record<string, Partial<Record<string, (request: ServedRequest) => Promise<Reply>>>>>;

function get(reply: () => Reply): NonNullable<Routes[string]> {
  return { GET: () => Promise.resolve(reply()) };
}

/** Routes of requests for the engine, and of those about them. */
function apiRoutes(backend: Backend, requests: SglangRequests): Routes {
  const generateReply = (request: ServedRequest) =>
    generate(request, parseSglangBody(request), backend, requests);
  const tokenize = { POST: (request: ServedRequest) => Promise.resolve(tokenizeReply(request, backend)) };
  const detokenize = { POST: (request: ServedRequest) => Promise.resolve(detokenizeReply(request, backend)) };
  const notEmbedding = { POST: () => Promise.resolve(notEmbeddingReply()) };
  return {
    "/generate": { POST: generateReply, PUT: generateReply },
    "/v1/completions": {
      POST: (request) =>
        wrapped(() => sglangCompletions(request, parseSglangBody(request), backend, requests)),
    },
    "/v1/chat/completions": {
      POST: (request) => wrapped(() => sglangChat(request, parseSglangBody(request), backend, requests)),
    },
    "/abort_request": {
      POST: (request) => {
        const { rid, abort_all: all } = parseSglangBody(request);
        if (all === true) requests.abortAll();
        else if (typeof rid === "string") requests.abort(rid);
        return Promise.resolve(emptyReply());
      },
    },
    "/tokenize": tokenize,
    "/v1/tokenize": tokenize,
    "/detokenize": detokenize,
    "/v1/detokenize": detokenize,
    "/v1/embeddings": notEmbedding,
    "/v1/rerank": notEmbedding,
  };
}

/** Routes that tell of the server, or clear its cache. */
function stateRoutes(backend: Backend): Routes {
  const health = {
    GET: async () => {
      await backend.pause(HEALTH_MS);
      return emptyReply();
    },
  };
  const flush = () => {
    if (backend.load > 0) {
      return Promise.resolve({ status: 400, headers: {}, body: "Flush cache failed.\n" });
    }
    backend.scheduler.cache.clear();
    return Promise.resolve({ status: 200, headers: {}, body: FLUSHED });
  };
  return {
    "/flush_cache": { GET: flush, POST: flush },
    "/health": health,
    "/health_generate": health,
    "/ping": get(() => emptyReply()),
    "/get_model_info": get(() => jsonReply(200, modelInfo(backend))),
    "/get_server_info": get(() => jsonReply(200, serverInfo(backend))),
    "/v1/models": get(() => {
      const data = backend.options.models.map((id) => modelCard(id, backend));
      return jsonReply(200, { object: "list", data });
    }),
    "/metrics": get(() => textReply(200, sglangMetrics(backend), "text/plain; version=0.0.4; charset=utf-8")),
  };
}

/** Routes that not every version has. */
function versionRoutes(backend: Backend): Routes {
  const version = versionNumber(backend.version);
  const loadRoutes: Routes = version >= SGLANG.newest
    ? {}
    : { "/get_load": get(() => jsonReply(200, load(backend))) };
  if (version < SGLANG.cumulativeIds) return loadRoutes;
  return {
    ...loadRoutes,
    "/model_info": get(() => jsonReply(200, modelInfo(backend))),
    "/server_info": get(() => jsonReply(200, serverInfo(backend))),
    "/v1/loads": {
      GET: ({ query }) => {
        // Pairs of that time fail when asked for all.
        const fails = backend.pd !== undefined && version < SGLANG.fakeHostForgets && query.has("include");
        return Promise.resolve(fails ? internalError() : jsonReply(200, loads(backend)));
      },
    },
  };
}

/** Makes a promise's rejection of what a check throws at once. */
async function wrapped(serve: () => Promise<Reply>): Promise<Reply> {
  return await serve();
}

function modelReply(request: ServedRequest, backend: Backend): Reply {
  const id = decodeURIComponent(request.path.slice("/v1/models/".length));
  if (backend.options.models.includes(id)) return jsonReply(200, modelCard(id, backend));
  return jsonReply(404, {
    error: {
      message: `The model '${id}' does not exist`,
      type: "invalid_request_error",
      param: "model",
      code: "model_not_found",
    },
  });
}

function notEmbeddingReply(): Reply {
  return openaiError(
    400,
    "This model does not appear to be an embedding model by default. Please add `--is-embedding` when launching the server or try another model.",
  );
}

function tokenizeReply(request: ServedRequest, backend: Backend): Reply {
  const body = parseSglangBody(request);
  const { prompt, messages } = body;
  const text = typeof prompt === "string"
    ? prompt
    : backend.renderChat(Array.isArray(messages) ? messages : [], body);
  const tokens = backend.tokenizer.encode(text);
  return jsonReply(200, { tokens, count: tokens.length, max_model_len: backend.contextTokens });
}

function detokenizeReply(request: ServedRequest, backend: Backend): Reply {
  const { tokens } = parseSglangBody(request);
  const ids = Array.isArray(tokens) ? tokens.filter((id) => typeof id === "number") : [];
  return jsonReply(200, { text: backend.tokenizer.decode(ids) });
}
