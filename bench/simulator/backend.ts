import { Random } from "../../base/random.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { ChatMessage } from "../../router/engines/engine.ts";
import type { ModelTokenizer } from "../../router/engines/tokenizer.ts";
import { type Choice, type ChoiceOptions, Collector } from "./choice.ts";
import { type CostModel, costModel } from "./cost.ts";
import { EngineMetrics } from "./metrics.ts";
import { Scheduler } from "./scheduler.ts";
import { Sequence } from "./sequence.ts";
import { type ScriptedAnswers, scriptedAnswers } from "./scripted.ts";
import type { SimulatorOptions } from "./simulator_types.ts";
import { BuiltinTokenizer, type Speech, speechOf } from "./tokenizer.ts";
import { BiasedSource, FixedSource, HashedSource, type TokenSource } from "./tokens.ts";

/** One answer to start: a prompt and how to continue it. */
export interface Generation extends Omit<ChoiceOptions, "speech" | "source"> {
  readonly prompt: readonly number[];
  readonly model: string;
  readonly seed: number | undefined;
  /** Undefined counts as sampling (temperature 1). */
  readonly temperature: number | undefined;
  readonly salt: string;
  readonly cacheLimit: number;
  /** A text that must be said, then the end token. */
  readonly forcedText: string | undefined;
  /** Biases of 50 and above make their token certain. */
  readonly logitBias: JsonObject | undefined;
}

/** What both protocols stand on: the engine, its tokenizer and its books. */
export class Backend {
  readonly options: SimulatorOptions;
  readonly version: string;
  readonly contextTokens: number;
  readonly cost: CostModel;
  readonly scheduler: Scheduler;
  readonly speech: Speech;
  readonly metrics: EngineMetrics;
  readonly startedMs: number;
  readonly #random: Random;
  readonly #scripted: ScriptedAnswers | undefined;

  constructor(options: SimulatorOptions, defaults: {
    version: string;
    pageSize: number;
    maxRunning: number;
    policy: "mixed" | "prefill_first";
  }) {
    this.options = options;
    this.version = options.version ?? defaults.version;
    this.contextTokens = options.contextTokens ?? 32768;
    this.cost = costModel(options.cost, options.speedup);
    this.scheduler = new Scheduler({
      clock: options.clock,
      cost: this.cost,
      policy: defaults.policy,
      pageSize: options.blockSize ?? defaults.pageSize,
      kvTokens: options.kvTokens ?? this.cost.kvTokens,
      maxRunning: options.maxRunning ?? defaults.maxRunning,
      maxBatchedTokens: options.maxBatchedTokens ?? 8192,
      onEnd: (sequence) => this.metrics.record(sequence, sequence.listener.finish?.type ?? "error"),
    });
    this.speech = speechOf(options.tokenizer ?? builtinTokenizer());
    this.metrics = new EngineMetrics();
    this.startedMs = options.clock.now();
    this.#random = new Random(options.seed).stream(`simulator/${options.models[0] ?? ""}/ids`);
    this.#scripted = options.answers === "scripted"
      ? scriptedAnswers({ size: options.cost, seed: options.seed })
      : undefined;
  }

  get tokenizer(): ModelTokenizer {
    return this.speech.tokenizer;
  }

  get model(): string {
    return this.options.models[0] ?? "model";
  }

  /** Unix time in seconds, with fractions. */
  unixTime(ms = this.options.clock.now()): number {
    return (this.options.clock.unixEpochMs + ms) / 1000;
  }

  randomHex(length: number): string {
    return this.#random.hex(length);
  }

  /** Waits for the simulated part of a duration given in real ms. */
  async pause(ms: number): Promise<void> {
    if (this.options.cost === "instant" || ms <= 0) return;
    await this.options.clock.sleep(ms / (this.options.speedup ?? 1));
  }

  /** The time a request spends in the front end. */
  async arrive(): Promise<void> {
    if (this.cost.requestMs > 0) await this.options.clock.sleep(this.cost.requestMs);
  }

  /** True when so many wait that the next one is refused. */
  get full(): boolean {
    const { maxQueued } = this.options;
    return maxQueued !== undefined && this.scheduler.waiting >= maxQueued;
  }

  /** Hands an answer to the engine. */
  start(collector: Collector, generation: Generation): Choice {
    const choice = collector.add({ ...generation, speech: this.speech, source: this.#source(generation) });
    const sequence = new Sequence({
      prompt: generation.prompt,
      salt: generation.salt,
      cacheLimit: generation.cacheLimit,
      listener: choice,
      arrivedMs: this.options.clock.now(),
    });
    choice.sequence = sequence;
    this.scheduler.submit(sequence);
    return choice;
  }

  /** The prompt text of a conversation. */
  renderChat(messages: readonly Json[], body: JsonObject): string {
    const templateArguments: Record<string, Json> = isJsonObject(body["chat_template_kwargs"])
      ? { ...body["chat_template_kwargs"] }
      : {};
    if (Array.isArray(body["tools"]) && body["tools"].length > 0) templateArguments["tools"] = body["tools"];
    const flat = messages.map(flatMessage);
    const text = this.tokenizer.renderChat(flat, { templateArguments });
    if (body["continue_final_message"] !== true) return text;
    const last = flat[flat.length - 1]?.content;
    const at = typeof last === "string" ? text.lastIndexOf(last) : -1;
    return at < 0 || typeof last !== "string" ? text : text.slice(0, at + last.length);
  }

  #source(generation: Generation): TokenSource {
    const { speech } = this;
    const hashed = new HashedSource(speech, generation.prompt, generation.model, generation.seed);
    for (const [id, bias] of Object.entries(generation.logitBias ?? {})) {
      if (typeof bias === "number" && bias >= 50) return new BiasedSource(Number(id), hashed);
    }
    if (generation.forcedText !== undefined) {
      return new FixedSource(speech.tokenizer.encode(generation.forcedText), speech.secondEndId, hashed);
    }
    if (this.#scripted === undefined) return hashed;
    const answer = this.#scripted.answer(
      speech.tokenizer.decode(generation.prompt),
      generation.seed,
      generation.temperature,
    );
    if (answer === undefined) return hashed;
    hashed.doubt = answer.doubt;
    return new FixedSource(speech.tokenizer.encode(answer.text), speech.endId, hashed);
  }
}

let builtin: BuiltinTokenizer | undefined;

/** The one built-in tokenizer: it keeps a cache that all simulators share. */
export function builtinTokenizer(): BuiltinTokenizer {
  builtin ??= new BuiltinTokenizer();
  return builtin;
}

function flatMessage(message: Json): ChatMessage {
  const fields = isJsonObject(message) ? message : {};
  const role = typeof fields["role"] === "string" ? fields["role"] : "user";
  return { ...fields, role, content: flatContent(fields["content"] ?? "") };
}

function flatContent(content: Json): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => isJsonObject(part) && typeof part["text"] === "string" ? part["text"] : "")
    .join("");
}
