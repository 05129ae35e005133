import { z } from "zod";
import { earlyExitSchema, effortSchema } from "./early_exit.ts";
import { launchSchema, modelLaunchSchema } from "./launch.ts";
import { limitsSchema } from "./limits.ts";
import { modelOnnxSchema } from "./onnx.ts";
import { policySchemas } from "./policies.ts";
import { recordsSchema } from "./records.ts";
import { samplingSchema } from "./sampling.ts";
import { scorerSchema } from "./scorer.ts";
import { rootStartSchema, staircaseSchema } from "./staircase.ts";
import { tracingSchema } from "./tracing.ts";

/** Requests of one prefill and one decode server that may be before their first token. */
export const DEFAULT_PAIR_WINDOW = 64;

const workerUrl = z.url({ protocol: /^https?$/ });

/** A server of a model, or a pair of them. */
export const workerSchema = z.union([
  workerUrl,
  z.strictObject({
    url: workerUrl.describe("Base URL of the server"),
    api_key: z.string().optional().describe("Bearer token for this worker only"),
  }),
  z.strictObject({
    prefill: workerUrl.describe("The server that reads prompts"),
    bootstrap_port: z.int().min(1).max(65535).optional().describe(
      "Port on the prefill server where the decode server fetches the cache",
    ),
    bootstrap_host: z.string().min(1).optional().describe(
      "The prefill server's name for the decode server, if it is not the one in its URL",
    ),
    decode: workerUrl.describe("The server that writes answers"),
  }),
]).describe("The URL of a server, or a prefill and a decode server that work together");

/** `hedge` of a model: when its agents are started a second time. */
export const hedgeSchema = z.strictObject({
  after: z.enum(["p50", "p60", "p70", "p80", "p90", "p95", "p99"]).default("p95").describe(
    "Percentile of the times that the model's agents took, after which one is started a second time",
  ),
  max_share: z.number().gt(0).max(1).default(0.05).describe("Share of its agents that may be"),
});

export const modelSchema = z.strictObject({
  model: z.string().min(1).describe(
    "The name the engine knows: a Hub id or a served model name; of an embedded model a Hub id or a folder",
  ),
  engine: z.enum(["openai", "vllm", "sglang", "vllm-pd", "sglang-pd", "onnx"]).describe(
    "Protocol of the workers; onnx: the model runs in this process, without workers",
  ),
  workers: z.array(workerSchema).default([]).describe("Servers that share this model's requests"),
  api_key: z.string().optional().describe("Bearer token for the workers"),
  api_key_env: z.string().optional().describe("Environment variable that holds the bearer token"),
  headers: z.record(z.string(), z.string()).default({}).describe("Sent with every request to the workers"),
  tokenizer: z.union([z.string(), z.literal(false)]).optional()
    .describe(
      "Folder or Hub id of the tokenizer; default: the one that the workers name, or that of `model`; false: none, " +
        "the engine applies its chat template, and prompts are not prefilled ahead",
    ),
  context_tokens: z.int().min(1).optional().describe(
    "Longest prompt plus answer; asked from the engine if absent",
  ),
  served: z.boolean().default(true).describe("Listed and served under its own name, too"),
  fallback: z.array(z.string().min(1)).optional().describe(
    "Keys of models that answer in its place, the first one that can, where none of its own workers can",
  ),
  ...policySchemas,
  dp_aware: z.boolean().default(false).describe(
    "Each data-parallel rank of a SGLang server is a place of its own, chosen here; false: the server chooses",
  ),
  max_in_flight: z.int().min(1).default(256).describe("Requests in flight per worker, or rank"),
  pair_window: z.int().min(1).default(DEFAULT_PAIR_WINDOW).describe(
    "Requests of one prefill and one decode server that may be before their first token; the others wait here",
  ),
  hedge_idle_pair_ms: z.number().positive().optional().describe(
    "Longest wait for the first answer of a SGLang pair that has been idle for a minute, before another attempt is " +
      "made beside it; absent: none is",
  ),
  hedge: hedgeSchema.optional().describe(
    "An agent that is late is started a second time on another worker, and the first that ends counts; absent: none is",
  ),
  price: z.strictObject({
    prompt: z.number().min(0).describe("Of a million prompt tokens"),
    cached: z.number().min(0).optional().describe(
      "Of a million prompt tokens that the engine found in its cache; as `prompt` by default",
    ),
    completion: z.number().min(0).describe("Of a million completion tokens"),
  }).optional().describe(
    "In whatever currency, one for all models; with it answers and metrics say what runs cost, and requests may have a " +
      "budget of cost",
  ),
  sampling: samplingSchema.optional().describe("Used where graph, layer and agent say nothing"),
  chat_template_arguments: z.record(z.string(), z.json()).default({}).describe(
    "Passed to the chat template, such as enable_thinking",
  ),
  connect_timeout_ms: z.number().positive().default(5_000).describe("Longest wait for a connection"),
  first_token_timeout_ms: z.number().positive().default(600_000).describe("Longest wait for the first token"),
  idle_timeout_ms: z.number().positive().default(120_000).describe("Longest silence inside a stream"),
  retries: z.int().min(0).default(1).describe(
    "Attempts in a row on other workers that may get no further, before a failure counts",
  ),
  backoff: z.strictObject({
    initial_ms: z.number().min(0).default(50).describe("Wait before the second attempt"),
    factor: z.number().min(1).default(1.5).describe("Growth of each further one"),
    max_ms: z.number().min(0).default(30_000).describe("Longest one"),
    jitter: z.number().min(0).max(1).default(0.2).describe(
      "Share by which each is longer or shorter, at random",
    ),
  }).prefault({}).describe("Waits between the attempts of a relayed request"),
  health: z.strictObject({
    enabled: z.boolean().default(true).describe("false: no checks; failed requests alone tell"),
    path: z.string().startsWith("/").optional().describe(
      "Path of the checks; by default /health, and /v1/models for the engine openai",
    ),
    interval_ms: z.number().positive().default(10_000).describe("Time between two checks of a worker"),
    timeout_ms: z.number().positive().default(5_000).describe("Longest wait for its answer"),
    failures: z.int().min(1).default(3).describe("Failed checks in a row that take a worker out"),
    successes: z.int().min(1).default(1).describe("Good checks in a row that bring it back"),
  }).prefault({}).describe("Health checks"),
  breaker: z.strictObject({
    failures: z.int().min(1).default(5).describe("Failed requests in a row that open the breaker"),
    successes: z.int().min(1).default(1).describe("Requests in a row that must succeed to close it"),
    open_ms: z.number().positive().default(10_000).describe("Time until one request may try again"),
  }).prefault({}).describe("Circuit breaker of each worker"),
  onnx: modelOnnxSchema.optional(),
  launch: modelLaunchSchema.optional().describe("How its engines are planned and started"),
});

/** A server that is asked for its model. */
export const fleetWorkerSchema = z.union([
  workerUrl,
  z.strictObject({
    url: workerUrl.describe("Base URL of the server"),
    api_key: z.string().min(1).optional().describe("Bearer token for this server only"),
    role: z.enum(["prefill", "decode"]).optional().describe("Its half of the work; absent: all of it"),
    bootstrap_port: z.int().min(1).max(65535).optional().describe("Port of a prefill server's registry"),
    bootstrap_host: z.string().min(1).optional().describe(
      "A prefill server's name for decode servers, if not the one in its URL",
    ),
  }),
]);

/** Servers whose models are learned from them. */
export const fleetSchema = z.strictObject({
  workers: z.array(fleetWorkerSchema).default([]).describe("Servers from the start; more by POST /workers"),
  engine: z.enum(["auto", "openai", "vllm", "sglang"]).default("auto").describe(
    "Protocol of the servers; auto: asked from them",
  ),
  startup_timeout_ms: z.number().min(0).default(1_800_000).describe(
    "Longest wait for a first server, where some are named",
  ),
  model: modelSchema.omit({
    model: true,
    engine: true,
    workers: true,
    tokenizer: true,
    fallback: true,
    onnx: true,
    launch: true,
  }).prefault({}).describe("Settings of every model that is learned"),
});

/** Layout of precursors' answers in place of `[responses]`. */
export const responsesFormatSchema = z.strictObject({
  item: z.string().default("[index]. [answer]").describe(
    "One answer; [index] counts from 1, [agent] is its id",
  ),
  separator: z.string().default("\n\n").describe("Stands between two answers"),
});

/**
 * A prompt template. Placeholders: `[input_prompts]` (the question), `[responses]` (all precursors' answers),
 * `<|answer:ID|>` (one precursor's answer). A string is a user message.
 */
export const promptSchema = z.union([
  z.string(),
  z.strictObject({
    system: z.string().optional().describe("Appended to the client's system message"),
    user: z.string().optional().describe(
      "Replaces the client's conversation; without it the conversation follows",
    ),
    append: z.string().optional().describe(
      "Ends the client's last user message; not together with `user`",
    ),
    responses: responsesFormatSchema.prefault({}).describe("How answers are laid out"),
  }).refine((prompt) => prompt.user === undefined || prompt.append === undefined, {
    error:
      "has both user, which replaces the conversation, and append, which goes on with it: use one of them",
  }),
  z.strictObject({
    text: z.string().describe("A raw prompt for /v1/completions: no chat template"),
    responses: responsesFormatSchema.prefault({}).describe("How answers are laid out"),
  }),
]);

export const agentSchema = z.strictObject({
  model: z.string().min(1).describe("A key of `models`"),
  prompt: z.string().optional().describe("A key of `prompts`, or a built-in prompt"),
  sampling: samplingSchema.optional(),
  deadline_ms: z.number().positive().optional().describe("Longest time for this agent"),
});

/** Rules of a cluster for agents that fail or are late. */
const clusterRules = {
  min_responses: z.int().min(1).optional().describe(
    "Answers that a cluster needs to go on; default: more than half of its members",
  ),
  deadline_ms: z.number().positive().optional().describe("Longest time for each agent"),
  on_deadline: z.enum(["drop", "use_partial"]).optional().describe(
    "What happens to the text of an agent that is cut",
  ),
  early_exit: earlyExitSchema.optional(),
};

export const layerSchema = z.strictObject({
  clusters: z.union([
    z.int().min(1),
    z.array(z.strictObject({ agents: z.array(agentSchema).min(1).describe("Its members"), ...clusterRules }))
      .min(1),
  ]).default(1).describe("How many clusters with these agents, or the clusters one by one"),
  agents: z.array(agentSchema).min(1).optional().describe("The members of each cluster"),
  prompt: z.string().optional().describe(
    "A key of `prompts`, or a built-in prompt: propose (default of the first layer), aggregate, synthesize (of the last)",
  ),
  sampling: samplingSchema.optional(),
  ...clusterRules,
});

export const incrementalPrefillSchema = z.strictObject({
  mode: z.enum(["off", "auto", "on"]).default("auto").describe(
    "auto: as long as it is measured to pay; on: always. Either way it waits while workers have prompts to read",
  ),
  chunk_tokens: z.int().min(1).optional().describe(
    "Tokens of each step, as in the paper; by default the pace sets itself",
  ),
  max_stall_ms: z.number().positive().default(100).describe(
    "Longest stall that one step may cause to other streams, where a server both prefills and decodes",
  ),
}).describe("Prefill of an agent's prompt while the agents that it reads still write");

/** Incremental prefill as it may be written: its mode alone, true (`auto`), false (`off`), or an object. */
export const incrementalPrefillInputSchema = z.union([
  z.enum(["auto", "on", "off"]),
  z.boolean(),
  incrementalPrefillSchema,
]).transform((written) =>
  typeof written === "object" ? written : incrementalPrefillSchema.parse({
    mode: typeof written === "string" ? written : written ? "auto" : "off",
  })
).describe(
  "Prefill of an agent's prompt while the agents that it reads still write; auto, on, off, or an object",
);

const graphRules = {
  slots: z.enum(["declared", "completion"]).default("declared").describe(
    "Order of the answers in a prompt: as written here, or as they are ready",
  ),
  neutralise_control_tokens: z.enum(["answers", "all", "none"]).optional().describe(
    "Texts in which a space takes control tokens (<|im_end|>) apart where the engine tokenises: agents' answers " +
      "(the default), users' messages too, or none. Where the router tokenises, texts never write any",
  ),
  strip_reasoning: z.boolean().default(true).describe("Remove <think> blocks from what successors read"),
  deadline_ms: z.number().positive().optional().describe("Longest time for a whole run"),
  min_responses: z.int().min(1).optional().describe("For all clusters that do not say otherwise"),
  on_deadline: z.enum(["drop", "use_partial"]).default("drop").describe(
    "What happens to the text of an agent that is cut",
  ),
  early_exit: earlyExitSchema.prefault({}),
  end_loops: z.boolean().default(true).describe(
    "Ends an agent that reads nobody when its last 1,500 characters are one piece again and again, as if it were cut",
  ),
  answer_tokens: z.int().min(1).default(512).describe(
    "Tokens that an agent's answer is expected to have: where a request has a budget, as many agents start as fit",
  ),
  effort: effortSchema.describe(
    "How far a run goes by the request's `reasoning_effort`; \"root\": it goes to the root's engine as it came",
  ),
  incremental_prefill: incrementalPrefillInputSchema.prefault("auto"),
  root: rootStartSchema.default("wait").describe(
    "wait: the root starts when its precursors are done. staircase: it starts on their first words and is asked again " +
      "as they grow, its own words so far kept",
  ),
  staircase: staircaseSchema.prefault({}),
  on_overflow: z.enum(["cut_middle", "refuse"]).default("cut_middle").describe(
    "Answers that are too long for the context of the agent that reads them: cut from their middle, or the agent fails",
  ),
  sampling: samplingSchema.optional().describe("For all agents; layer and agent win over it"),
  compat: z.enum(["moa-vllm"]).optional().describe(
    "Exact behaviour of MoA-vllm: two-pass substitution, plain join",
  ),
};

/** Layers: the i-th agent of a layer reads the i-th cluster of the layer before; one cluster is read by all. */
export const layeredGraphSchema = z.strictObject({
  layers: z.array(layerSchema).min(1).describe("Each reads the one before; the last has one agent, the root"),
  ...graphRules,
});

/** Any DAG with one root: each agent names the agents it reads. */
export const explicitGraphSchema = z.strictObject({
  agents: z.record(
    z.string(),
    agentSchema.extend({
      reads: z.array(z.string()).default([]).describe("Agents whose answers this one reads, as one cluster"),
      min_responses: z.int().min(1).optional().describe("Answers that it needs; default: more than half"),
    }),
  ).describe("Agents by name; the one that nobody reads is the root"),
  ...graphRules,
});

export const graphSchema = z.union([layeredGraphSchema, explicitGraphSchema]);

/** A name, an address, `*.` and a domain, or `*`; ports are not looked at. */
const hostName = z.string().regex(
  /^(?:\*|(?:\*\.)?[\w-]+(?:\.[\w-]+)*|\[[\da-f:.]+\]|[\da-f]*:[\da-f:.]*:[\da-f:.]*)$/i,
  "must be a name or an address without scheme and port, *.DOMAIN for all names in a domain, or *",
);

export const serverSchema = z.strictObject({
  host: z.string().default("127.0.0.1").describe("Address to listen on; 0.0.0.0 for all"),
  port: z.int().min(0).max(65535).default(8000).describe("0: any free port"),
  api_keys: z.array(z.string().min(1)).default([]).describe(
    "Bearer tokens of clients; none: everybody may ask",
  ),
  limits: limitsSchema.optional().describe("Requests and tokens that the holders of API keys may use"),
  admin_key: z.string().min(1).optional().describe("Bearer token for changes to the running router"),
  admin_keys: z.array(z.string().min(1)).default([]).describe("More such tokens"),
  audit: z.boolean().default(false).describe(
    "Log each change to the running router, and a part of its key's hash",
  ),
  tls: z.strictObject({
    cert: z.string().min(1).describe(
      "File with the certificate and those between it and its authority (PEM)",
    ),
    key: z.string().min(1).describe("File with its private key (PEM)"),
  }).optional().describe("Serve HTTPS; files that change are read again"),
  worker_tls: z.strictObject({
    ca: z.array(z.string().min(1)).default([]).describe(
      "Files with authorities to trust besides the system's (PEM)",
    ),
    cert: z.string().min(1).optional().describe("File with the router's own certificate (PEM)"),
    key: z.string().min(1).optional().describe("File with its private key (PEM)"),
  }).refine(({ cert, key }) => (cert === undefined) === (key === undefined), {
    error: "has one of cert and key: a certificate and its key go together",
  }).optional().describe("HTTPS to workers"),
  metrics: z.strictObject({
    host: z.string().default("0.0.0.0").describe("Address to listen on"),
    port: z.int().min(0).max(65535).describe("0: any free port"),
    required: z.boolean().default(true).describe("false: a port that is taken is no error"),
  }).optional().describe("A second port, with nothing but GET /metrics, for everybody"),
  request_id_headers: z.array(z.string().regex(/^[\w-]+$/, "must be the name of a header")).default([
    "x-request-id",
    "x-correlation-id",
    "x-trace-id",
    "request-id",
  ]).describe("Headers of clients that may hold a request's id; the first one counts"),
  cors_origins: z.array(
    z.string().regex(
      /^(?:\*|[a-z][a-z\d+.-]*:\/\/[^\s/,*]+)$/,
      "must be an origin such as https://chat.example.com, without a path, or *",
    ),
  ).default([]).describe(
    "Origins whose pages may ask from a browser; none: only the router's own; *: all",
  ),
  allowed_hosts: z.array(hostName).default([]).describe(
    "Names by which clients may call the router; none: any, but on the loopback only localhost and its addresses",
  ),
  worker_hosts: z.array(hostName).default([]).describe(
    "Hosts, beside this one and those of configured workers, of which POST /workers takes workers under an admin key; " +
      "where there is no key at all, it then takes them from other hosts, too",
  ),
  max_body_bytes: z.int().min(1).default(64 * 1024 * 1024).describe("Largest request body"),
  max_running: z.int().min(1).default(256).describe("Requests that run at once"),
  max_queued: z.int().min(0).default(1024).describe("Requests that may wait for a place"),
  queue_timeout_ms: z.number().positive().default(60_000).describe("Longest wait for a place"),
  drain_timeout_ms: z.number().positive().default(30_000).describe(
    "Time for running requests to end after SIGTERM",
  ),
  workers: z.union([z.int().min(1).max(64), z.literal("auto")]).default(1).describe(
    "Threads that serve clients, each with an event loop of its own; auto: one for each core",
  ),
  readiness: z.enum(["all", "any"]).default("all").describe(
    "GET /readiness is 200 when all models that are served have a usable worker, or when any graph or model can be served",
  ),
  tracing: tracingSchema.optional().describe("Send spans of requests to a collector (OpenTelemetry)"),
  page: z.boolean().default(true).describe("A page for browsers at /"),
  reports: z.string().min(1).optional().describe(
    "Folder whose reports (canopy bench eval --html) the page lists",
  ),
  max_runs_kept: z.int().min(0).default(200).describe("Finished runs kept in memory for GET /v1/runs"),
  records: recordsSchema.prefault({}).describe("What is kept of finished runs"),
  log_level: z.enum(["trace", "debug", "info", "warning", "error", "fatal"]).default("info").describe(
    "Least weight of what is logged",
  ),
  log_format: z.enum(["json", "text"]).default("text").describe("A line for each entry, as JSON or text"),
  log_dir: z.string().min(1).optional().describe(
    "Folder of canopy.log, which is written beside standard error",
  ),
});

export const configSchema = z.strictObject({
  $schema: z.string().optional().describe("The JSON Schema of this file, for editors"),
  server: serverSchema.prefault({}).describe("The HTTP server"),
  models: z.record(z.string().min(1), modelSchema).default({}).describe(
    "Models by the name that agents and clients use",
  ),
  fleet: fleetSchema.optional().describe("Servers whose models are learned from them"),
  prompts: z.record(z.string().min(1), promptSchema).default({}).describe("Prompt templates by name"),
  graphs: z.record(z.string().min(1), graphSchema).default({}).describe(
    "Graphs of agents, each served as a model",
  ),
  scorer: scorerSchema.prefault({}).describe("How answers are compared, for early exit"),
  launch: launchSchema.optional().describe("How engines are planned and started on this host"),
});

/** A checked configuration with all defaults filled in. */
export type Config = z.infer<typeof configSchema>;
export type ModelConfig = z.infer<typeof modelSchema>;
export type HedgeSettings = NonNullable<ModelConfig["hedge"]>;
export type FleetConfig = z.infer<typeof fleetSchema>;
export type WorkerConfig = z.infer<typeof workerSchema>;
export type PromptConfig = z.infer<typeof promptSchema>;
export type AgentConfig = z.infer<typeof agentSchema>;
export type LayerConfig = z.infer<typeof layerSchema>;
export type PriceConfig = NonNullable<ModelConfig["price"]>;
export type GraphConfig = z.infer<typeof graphSchema>;
export type LayeredGraphConfig = z.infer<typeof layeredGraphSchema>;
export type ExplicitGraphConfig = z.infer<typeof explicitGraphSchema>;
export type SamplingConfig = z.infer<typeof samplingSchema>;
