import { type Clock, SystemClock } from "../../../base/clock.ts";
import { AsyncQueue } from "../../../base/queue.ts";
import { Random } from "../../../base/random.ts";
import { type Config, configSchema } from "../../../cfgs/schema/config.ts";
import { noEarlyExit } from "../../../cfgs/schema/early_exit.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import type { Engine, EngineCapabilities } from "../../../router/engines/engine.ts";
import { type AppServices, createApp } from "../../../router/http/app.ts";
import type { AgentEvent } from "../../../router/moa/agent/agent_events.ts";
import type { AgentNode, Graph } from "../../../router/moa/graph/graph_types.ts";
import type { RunInput } from "../../../router/moa/graph/run_input.ts";
import type { RunRecord } from "../../../router/moa/record/run_record.ts";
import type { TraceEvent } from "../../../router/moa/record/trace.ts";
import type { RunUsage } from "../../../router/moa/record/usage.ts";
import type { Moa } from "../../../router/moa/run/moa.ts";
import type { Run, RunEvent } from "../../../router/moa/run/run.ts";
import { Gate } from "../../../router/pool/gate.ts";
import type { Pool } from "../../../router/pool/pool.ts";
import type { AnswerBytes, Relay, RelayAnswer, RelayRequest } from "../../../router/relay/relay_types.ts";
import type { ServedModel } from "../../../router/served/served_model.ts";
import { NO_COUNTS } from "../pool/no_counts.ts";
import { noMembership } from "../no_membership.ts";

/** What the root of a fake run says for each prompt and choice. */
export type Script = (input: RunInput) => AsyncIterable<RunEvent> | Iterable<RunEvent>;

/** Two deltas and an end for every choice. */
export function* hello(input: RunInput): Generator<RunEvent> {
  for (let index = 0; index < input.choices; index++) {
    yield { type: "delta", index, delta: { type: "delta", text: "Hel" } };
    yield { type: "delta", index, delta: { type: "delta", text: "lo" } };
    yield { type: "end", index, finishReason: "stop" };
  }
}

const AGENTS = [
  agentUsage("l1.c1.a1", "small", 30, 8, 32),
  agentUsage("l1.c1.a2", "small", 30, 7, 32),
  agentUsage("l2.c1.a1", "big", 40, 5, undefined),
];

export const USAGE: RunUsage = {
  promptTokens: 100,
  completionTokens: 20,
  cachedTokens: 64,
  reasoningTokens: 5,
  wastedTokens: 3,
  warmTokens: 24,
  calls: 3,
  agents: AGENTS,
  parts: AGENTS,
};

function agentUsage(
  agent: string,
  model: string,
  prompt: number,
  completion: number,
  cached: number | undefined,
) {
  return {
    agent,
    model,
    calls: 1,
    promptTokens: prompt,
    completionTokens: completion,
    cachedTokens: cached,
    reasoningTokens: agent === "l2.c1.a1" ? 5 : 0,
    wastedTokens: agent === "l1.c1.a2" ? 3 : 0,
    ...(agent === "l2.c1.a1" ? { warmTokens: 24 } : {}),
  };
}

export const TRACE: TraceEvent[] = [
  { atMs: 0, type: "run_started" },
  { atMs: 5, type: "agent_done", agent: "l1.c1.a1", data: { tokens: 8 } },
  { atMs: 9, type: "run_done" },
];

/** A run whose output is a script; ends when the script does, or when its signal aborts. */
class FakeRun implements Run {
  readonly id: string;
  readonly input: RunInput;
  readonly ended: Promise<void>;
  state: RunRecord["state"] = "running";
  #end: () => void = () => {};
  readonly #satisfied = new Set<number>();
  readonly #script: Script;
  readonly #abort = new AbortController();

  constructor(id: string, input: RunInput, script: Script, signal: AbortSignal) {
    this.id = id;
    this.input = input;
    this.#script = script;
    this.ended = new Promise((resolve) => this.#end = resolve);
    const onAbort = () => void this.cancel(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    void this.ended.then(() => signal.removeEventListener("abort", onAbort));
  }

  get output(): AsyncIterable<RunEvent> {
    return this.#read();
  }

  async *#read(): AsyncGenerator<RunEvent> {
    const aborted = new Promise<never>((_, reject) => {
      if (this.#abort.signal.aborted) reject(this.#abort.signal.reason);
      this.#abort.signal.addEventListener("abort", () => reject(this.#abort.signal.reason));
    });
    aborted.catch(() => {});
    const script = this.#script(this.input);
    const events = Symbol.asyncIterator in script
      ? script[Symbol.asyncIterator]()
      : script[Symbol.iterator]();
    try {
      while (true) {
        if (this.#satisfied.size === this.input.choices) break;
        const next = await Promise.race([events.next(), aborted]);
        if (next.done === true) break;
        if (!this.#satisfied.has(next.value.index)) yield next.value;
      }
      this.#finish("done");
    } finally {
      this.#finish("failed");
    }
  }

  #finish(state: RunRecord["state"]): void {
    if (this.state === "running") this.state = state;
    this.#end();
  }

  usage(): RunUsage {
    return USAGE;
  }

  record(): RunRecord {
    const agent = (id: string, model: string, text: string): RunRecord["agents"][number] => ({
      id,
      model,
      state: "done",
      worker: "w1",
      prompt: { kind: "text", text: `prompt of ${id}` },
      text,
      reasoning: "",
      finishReason: "stop",
      error: undefined,
      startedAtMs: 0,
      firstTokenAtMs: 1,
      endedAtMs: 5,
      resumes: 0,
      restarts: 0,
      usage: undefined,
    });
    return {
      id: this.id,
      owner: this.input.owner,
      requestId: this.input.headers?.["x-request-id"],
      request: this.input.asked && { ...this.input.asked, seed: this.input.rootSampling.seed },
      graph: "moa",
      state: this.state,
      startedAtUnixMs: 1_700_000_000_500,
      durationMs: this.state === "running" ? undefined : 9,
      error: undefined,
      usage: USAGE,
      agents: [
        agent("l1.c1.a1", "small", "first"),
        agent("l1.c1.a2", "small", "second"),
        agent("l2.c1.a1", "big", "Hello"),
      ],
      exits: [],
      rootSkipped: false,
      drawSeed: "1",
      events: TRACE,
    };
  }

  async *events(signal: AbortSignal): AsyncGenerator<TraceEvent> {
    for (const event of TRACE) {
      signal.throwIfAborted();
      yield event;
    }
  }

  async *agentEvents(signal: AbortSignal): AsyncGenerator<AgentEvent> {
    for (const record of this.record().agents) {
      signal.throwIfAborted();
      const { id: agent, text, reasoning } = record;
      yield { type: "delta", agent, text, reasoning };
      yield { type: "end", agent, record };
    }
  }

  satisfy(index: number): void {
    this.#satisfied.add(index);
  }

  onRootTokens(): void {}

  cancel(reason: unknown): Promise<void> {
    if (this.state === "running") this.state = "cancelled";
    this.#abort.abort(reason);
    this.#end();
    return Promise.resolve();
  }
}

/** Starts fake runs and remembers them. */
export class FakeMoa implements Moa {
  addModel(): void {}

  removeModel(): void {}

  prepare(): { commit(): void } {
    return { commit: () => {} };
  }

  readonly graphs: ReadonlyMap<string, Graph>;
  readonly runs: FakeRun[] = [];
  script: Script;
  /** Thrown by `start`. */
  refuse: Error | undefined;
  /** Off for long fuzzing. */
  remember = true;
  #count = 0;

  constructor(graphs: readonly Graph[], script: Script) {
    this.graphs = new Map(graphs.map((graph) => [graph.name, graph]));
    this.script = script;
  }

  checkEarlyExit(): void {}

  start(_graph: Graph, input: RunInput, signal: AbortSignal): Run {
    if (this.refuse !== undefined) throw this.refuse;
    const run = new FakeRun(`run_${++this.#count}`, input, this.script, signal);
    if (this.remember) this.runs.push(run);
    return run;
  }

  keep(): void {}

  list(): readonly RunRecord[] {
    return this.runs.map((run) => run.record());
  }

  get(id: string): Run | undefined {
    return this.runs.find((run) => run.id === id);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** The only run. */
  get run(): FakeRun {
    if (this.runs.length !== 1) throw new Error(`there are ${this.runs.length} runs`);
    return this.runs[0]!;
  }
}

/** Answers with what `answer` makes, and remembers the requests. */
export class FakeRelay implements Relay {
  readonly requests: { model: string; request: RelayRequest; signal: AbortSignal }[] = [];
  answer: (request: RelayRequest, signal: AbortSignal) => Response | Promise<Response> = () =>
    new Response('{"relayed":true}', { headers: { "content-type": "application/json" } });

  liveRids(): [] {
    return [];
  }

  async relay(model: ServedModel, request: RelayRequest, signal: AbortSignal): Promise<RelayAnswer> {
    this.requests.push({ model: model.name, request, signal });
    const { status, headers, body } = await this.answer(request, signal);
    return {
      status,
      headers: Object.fromEntries(headers),
      body: body === null ? undefined : bytesOf(body),
    };
  }
}

function bytesOf(body: ReadableStream<Uint8Array>): AnswerBytes {
  const reader = body.getReader();
  return {
    next: async () => {
      const { done, value } = await reader.read();
      return done ? { done, value: undefined } : { done, value };
    },
    async pass(take, fail) {
      await this.next().then(take, fail);
    },
    return: async () => {
      await reader.cancel();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

const TEMPLATE: AgentNode["template"] = {
  kind: "raw",
  text: [{ kind: "question" }],
  responses: { item: [{ kind: "answer" }], separator: "" },
};

export function agentNode(id: string, model: string, reads: Graph["clusters"]): AgentNode {
  return { id, model, template: TEMPLATE, sampling: {}, deadlineMs: undefined, onDeadline: "drop", reads };
}

export function fakeGraph(name: string, root = "big"): Graph {
  const leaves = [agentNode("l1.c1.a1", "small", []), agentNode("l1.c1.a2", "small", [])];
  const cluster = {
    id: "l1.c1",
    agents: leaves,
    minResponses: 1,
    earlyExit: noEarlyExit,
  } as const;
  const rootNode = agentNode("l2.c1.a1", root, [cluster]);
  return {
    name,
    agents: [...leaves, rootNode],
    clusters: [cluster],
    root: rootNode,
    slots: "declared",
    stripReasoning: true,
    deadlineMs: undefined,
    compat: undefined,
    incrementalPrefill: { mode: "off", chunkTokens: undefined, maxStallMs: 100 },
    onOverflow: "cut_middle",
  };
}

/** Ids are code units: 0 … 255. */
export const byteTokenizer: ModelTokenizer = {
  vocabSize: 256,
  hasChatTemplate: false,
  encode: (text) => Array.from(text, (character) => character.charCodeAt(0)),
  decode: (ids) => String.fromCharCode(...ids),
  renderChat: () => "",
};

const CAPABILITIES: EngineCapabilities = {
  version: "0.32.0",
  tokenIds: true,
  returnsTokenIds: true,
  logprobs: true,
  cachedTokens: true,
  warm: "none",
  abort: "close",
  contextTokens: 8192,
  maxStopStrings: 4,
};

export interface FakeModelOptions {
  readonly capabilities?: Partial<EngineCapabilities>;
  readonly tokenizer?: ModelTokenizer | undefined;
  readonly ready?: boolean;
}

/** The services of an app over fakes, and the app. */
export function fakeApp(options: {
  clock?: Clock;
  config?: Record<string, unknown>;
  script?: Script;
  graphs?: readonly Graph[];
  models?: Readonly<Record<string, FakeModelOptions>>;
  app?: Partial<AppServices>;
} = {}) {
  const config: Config = configSchema.parse({
    models: {
      small: { model: "org/small", engine: "vllm" },
      big: { model: "org/big", engine: "vllm" },
      hidden: { model: "org/hidden", engine: "vllm", served: false },
    },
    ...options.config,
  });
  const clock = options.clock ?? new SystemClock();
  const moa = new FakeMoa(options.graphs ?? [fakeGraph("moa")], options.script ?? hello);
  const relay = new FakeRelay();
  const models = new Map<string, ServedModel>();
  for (const [name, modelConfig] of Object.entries(config.models)) {
    const { capabilities, ready } = options.models?.[name] ?? {};
    const fake = options.models?.[name];
    const engine: Engine = {
      capabilities: { ...CAPABILITIES, ...capabilities },
      warm: unused,
      generate: unused,
    };
    const pool: Pool = {
      model: name,
      gate: new Gate({ model: name, clock, place: unused }),
      workers: () => [{
        id: `${name}-1`,
        url: "http://worker",
        health: ready === false ? "unhealthy" : "healthy",
        breaker: "closed",
        inFlight: 2,
        served: 7,
        failures: 1,
        counts: NO_COUNTS,
        lastError: undefined,
      }],
      ready: ready ?? true,
    };
    const tokenizer = fake !== undefined && "tokenizer" in fake ? fake.tokenizer : byteTokenizer;
    models.set(name, { name, config: modelConfig, engine, pool, membership: noMembership, tokenizer });
  }
  const services: AppServices = {
    config,
    clock,
    random: new Random("test"),
    transport: { send: unused, close: () => Promise.resolve() },
    models,
    moa,
    relay,
    ...options.app,
  };
  const app = createApp(services);
  const post = (path: string, body: unknown, init: RequestInit = {}) =>
    app.request(path, { method: "POST", body: JSON.stringify(body), ...init });
  const chat = (fields: Record<string, unknown> = {}, init: RequestInit = {}) =>
    post(
      "/v1/chat/completions",
      { model: "moa", messages: [{ role: "user", content: "Hi" }], ...fields },
      init,
    );
  const complete = (fields: Record<string, unknown> = {}, init: RequestInit = {}) =>
    post("/v1/completions", { model: "moa", prompt: "Hi", ...fields }, init);
  return { app, moa, relay, services, post, chat, complete };
}

function unused(): never {
  throw new Error("The HTTP surface must not call this");
}

/** A script that yields what the test pushes. */
export function pushed(): { script: Script; events: AsyncQueue<RunEvent> } {
  const events = new AsyncQueue<RunEvent>(1000);
  return { script: () => events, events };
}

/** Lets everything that can run without time passing run. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** The `data:` lines of a stream, parsed; asserts the framing byte for byte. */
export function parseEvents(text: string): unknown[] {
  if (!text.endsWith("\n\n")) throw new Error("the stream does not end with an empty line");
  return text.slice(0, -2).split("\n\n").map((event) => {
    if (!event.startsWith("data: ") || event.includes("\n")) throw new Error(`bad event: ${event}`);
    const data = event.slice("data: ".length);
    return data === "[DONE]" ? data : JSON.parse(data);
  });
}
