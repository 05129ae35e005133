import assert from "node:assert/strict";
import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { type Config, configSchema } from "../../../cfgs/schema/config.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import type { EngineCapabilities, GenerateRequest } from "../../../router/engines/engine.ts";
import type { EarlyExitServices } from "../../../router/moa/exit/exit_policies.ts";
import type { RunInput } from "../../../router/moa/graph/run_input.ts";
import { createMoa, type Moa, type MoaOptions } from "../../../router/moa/run/moa.ts";
import type { Run, RunEvent } from "../../../router/moa/run/run.ts";
import { Arrivals } from "../../../router/pool/arrivals.ts";
import type { ServedModel } from "../../../router/served/served_model.ts";
import { FakeEngine, type Script } from "./fake_engine.ts";
import { noMembership } from "../no_membership.ts";

/** Prompts under which each agent's answer can be told from its prompt. */
export const plainPrompts = {
  propose: "[input_prompts]",
  aggregate: "Q: [input_prompts]\nA:\n[responses]",
  synthesize: "Final. Q: [input_prompts]\nA:\n[responses]",
};

/** What a test says about the world. */
export interface WorldOptions {
  readonly graph: unknown;
  /** Names of the models; each has an engine with two workers. */
  readonly models?: readonly string[];
  readonly modelFields?: Record<string, unknown>;
  /** Settings of single models, over those. */
  readonly fieldsOf?: Readonly<Record<string, Partial<Config["models"][string]>>>;
  readonly prompts?: Record<string, unknown>;
  /** How model `model` answers. */
  readonly script?: (
    call: { model: string; prompt: string; request: GenerateRequest; workerId: string },
  ) => Script;
  readonly capacity?: number;
  readonly workers?: readonly string[];
  readonly abortMs?: number;
  readonly capabilities?: Partial<EngineCapabilities>;
  readonly tokenizer?: ModelTokenizer | undefined;
  readonly maxRunsKept?: number;
  /** Settings of `server.records`. */
  readonly records?: Partial<Config["server"]["records"]>;
  readonly onRunKept?: MoaOptions["onRunKept"];
  readonly earlyExit?: (clock: VirtualClock) => EarlyExitServices;
}

/** A router's moa part over fake engines under a virtual clock. */
export interface World {
  readonly clock: VirtualClock;
  readonly moa: Moa;
  readonly engines: ReadonlyMap<string, FakeEngine>;
  start(input?: Partial<RunInput>, signal?: AbortSignal): Run;
  /** Fails unless every engine is idle, every place is given back and no timer is set. */
  assertIdle(): void;
}

export function makeWorld(options: WorldOptions): World {
  const clock = new VirtualClock();
  const names = options.models ?? ["a"];
  const made = makeConfig(options.graph, names, options.prompts, options.modelFields);
  const records = { ...made.server.records, ...options.records };
  const config = { ...made, server: { ...made.server, records } };
  const engines = new Map<string, FakeEngine>();
  const models = new Map<string, ServedModel>();
  for (const name of names) {
    const script = (request: GenerateRequest, workerId: string) =>
      options.script?.({ model: name, prompt: promptText(request), request, workerId }) ?? { pieces: ["ok"] };
    const engine = new FakeEngine(clock, script, options);
    engines.set(name, engine);
    models.set(name, {
      name,
      config: { ...config.models[name]!, ...options.fieldsOf?.[name] },
      engine,
      pool: engine.pool,
      membership: noMembership,
      tokenizer: options.tokenizer,
    });
  }
  const moa = createMoa({
    config,
    clock,
    random: new Random("test"),
    models,
    arrivals: new Arrivals(),
    earlyExit: options.earlyExit?.(clock),
    maxRunsKept: options.maxRunsKept,
    onRunKept: options.onRunKept,
  });
  return {
    clock,
    moa,
    engines,
    start: (input = {}, signal = new AbortController().signal) =>
      moa.start(moa.graphs.get("moa")!, {
        question: { kind: "text", text: "why?" },
        rootSampling: {},
        choices: 1,
        ...input,
      }, signal),
    assertIdle: () => {
      for (const [name, engine] of engines) {
        assert.equal(engine.active, 0, `${name} still generates`);
        assert.equal(engine.placed, 0, `${name} has places that were not given back`);
      }
      assert.equal(clock.pendingTimers, 0, "timers are left");
    },
  };
}

export function makeConfig(
  graph: unknown,
  models: readonly string[] = ["a"],
  prompts: Record<string, unknown> = plainPrompts,
  modelFields: Record<string, unknown> = {},
): Config {
  const model = { model: "some/model", engine: "openai", ...modelFields };
  return configSchema.parse({
    models: Object.fromEntries(models.map((name) => [name, model])),
    prompts,
    graphs: { moa: graph },
  });
}

/** The text of a request's prompt: of a conversation, its messages one below the other. */
export function promptText(request: GenerateRequest): string {
  const { prompt } = request;
  if (prompt.kind === "text") return prompt.text;
  if (prompt.kind === "tokens") return String.fromCodePoint(...prompt.ids);
  return prompt.messages.map((message) => String(message.content)).join("\n");
}

/** Reads a run to its end: the text of each choice. */
export async function readAll(run: Run): Promise<string[]> {
  const texts: string[] = [];
  for await (const event of run.output) {
    texts[event.index] ??= "";
    if (event.type === "delta") texts[event.index] += event.delta.text;
  }
  return texts;
}

/** Reads a run until it throws, and returns what it threw. */
export async function errorOf(run: Run): Promise<unknown> {
  try {
    for await (const _event of run.output);
  } catch (error) {
    return error;
  }
  throw new Error("the run did not fail");
}

/** All events of a run's output. */
export async function eventsOf(run: Run): Promise<RunEvent[]> {
  const events: RunEvent[] = [];
  for await (const event of run.output) events.push(event);
  return events;
}

/** `type agent-or-cluster` of the traced events whose type begins with `prefix`. */
export function traced(run: Run, prefix: string): string[] {
  return run.record().events
    .filter((event) => event.type.startsWith(prefix))
    .map((event) => `${event.type} ${event.agent ?? event.cluster ?? ""}`.trim());
}

/** A tokenizer with one token per character. */
export const characterTokenizer: ModelTokenizer = {
  vocabSize: 0x110000,
  encode: (text) => Array.from(text, (character) => character.codePointAt(0)!),
  decode: (ids) => String.fromCodePoint(...ids),
  hasChatTemplate: true,
  renderChat: (messages) => messages.map((m) => `<${m.role}>${m.content}`).join("") + "<assistant>",
};
