import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { Random } from "../../base/random.ts";
import type { ChatMessage } from "../../ml/tokenizers/chat_message.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import { textToContinue, toBeContinued } from "../../ml/tokenizers/render_chat.ts";
import type { Choice, ChoiceOptions, Collector } from "../engine/choice.ts";
import { type CostModel, costModel } from "../engine/cost.ts";
import type { Strike } from "../engine/faults.ts";
import { EngineMetrics } from "../engine/metrics.ts";
import { EngineScheduler } from "../engine/scheduler.ts";
import { EngineSequence } from "../engine/sequence.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import { DecodeRole } from "../pd/decode.ts";
import { ANY_HOST } from "../pd/fabric.ts";
import { type PdEngine, PrefillRole } from "../pd/prefill.ts";
import { type Bootstrap, BOOTSTRAP_PORT, FAKE_BOOTSTRAP_HOST, type PdRole } from "../pd/role.ts";
import { KvConnector } from "../pd/vllm_kv.ts";
import type { PdOptions, SimulatorOptions } from "./simulator_options.ts";
import { type ScriptedAnswer, type ScriptedAnswers, scriptedAnswers } from "../text/scripted.ts";
import { BuiltinTokenizer, type Speech, speechOf } from "../text/tokenizer.ts";
import { BiasedSource, FixedSource, HashedSource, type TokenSource } from "../text/tokens.ts";

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
  /** Meeting place of the halves of a pair; only SGLang pairs need it. */
  readonly bootstrap?: Bootstrap;
  /** `kv_transfer_params` of a vLLM request, with the request's id. */
  readonly transfer?: { readonly params: JsonObject; readonly id: string } | undefined;
}

/** Default port at which a vLLM server's KV is fetched. */
const SIDE_CHANNEL_PORT = 5600;

/** Size whose skill answers have when the cost is not of a size. */
const SCRIPTED_SIZE = "8b";

/** Ties between a server's engine and its process. */
export interface BackendHooks {
  /** Ends the process; the request that did it never hears of it. */
  die(): Promise<never>;
  /** Fault of the next transfer of KV. */
  strike(): Strike | undefined;
}

/** The engine below both protocols, with its tokenizer and its counters. */
export class Backend {
  readonly options: SimulatorOptions;
  readonly version: string;
  readonly contextTokens: number;
  readonly cost: CostModel;
  readonly scheduler: EngineScheduler;
  readonly speech: Speech;
  readonly metrics: EngineMetrics;
  readonly startedMs: number;
  /** The half of a pair that this server is. */
  readonly pd: PdRole | undefined;
  /** vLLM's way of fetching KV from elsewhere. */
  readonly kv: KvConnector | undefined;
  readonly #hooks: BackendHooks;
  readonly #random: Random;
  readonly #scripted: ScriptedAnswers | undefined;
  /** Of answers that are asked for again, for every warm. */
  readonly #scriptedIds = new WeakMap<ScriptedAnswer, readonly number[]>();

  constructor(options: SimulatorOptions, defaults: {
    version: string;
    pageSize: number;
    maxRunning: number;
    policy: "mixed" | "prefill_first";
  }, hooks: BackendHooks = { die: () => new Promise(() => {}), strike: () => undefined }) {
    this.options = options;
    this.#hooks = hooks;
    this.version = options.version ?? defaults.version;
    this.contextTokens = options.contextTokens ?? 32768;
    this.cost = costModel(options.cost, options.speedup);
    this.scheduler = new EngineScheduler({
      clock: options.clock,
      cost: this.cost,
      policy: defaults.policy,
      pageSize: options.blockSize ?? defaults.pageSize,
      kvTokens: options.kvTokens ?? this.cost.kvTokens,
      maxRunning: options.maxRunning ?? defaults.maxRunning,
      maxBatchedTokens: options.maxBatchedTokens ?? 8192,
      onEnd: (sequence) => {
        const { finish } = sequence.listener;
        this.metrics.record(sequence, finish?.failure === undefined ? finish?.type ?? "error" : "error");
      },
      onFree: () => {
        this.pd?.freed();
        this.kv?.freed();
      },
    });
    this.speech = speechOf(options.tokenizer ?? builtinTokenizer());
    this.metrics = new EngineMetrics();
    this.startedMs = options.clock.now();
    this.#random = new Random(options.seed).stream(`simulator/${options.models[0] ?? ""}/ids`);
    this.#scripted = options.answers === "scripted"
      ? scriptedAnswers({
        size: typeof options.cost === "string" ? options.cost : SCRIPTED_SIZE,
        seed: options.seed,
      })
      : options.answers === "hashed"
      ? undefined
      : options.answers;
    const { pd } = options;
    this.pd = pd === undefined || options.engine === "vllm" ? undefined : this.#role(pd, hooks);
    this.kv = pd === undefined || options.engine === "sglang" ? undefined : this.#connector(pd, hooks);
  }

  /** Requests that are anywhere in the engine; 0 when it is idle. */
  get load(): number {
    const { running, waiting, travelling } = this.scheduler;
    const queues = this.pd?.queues;
    const outside = (queues?.bootstrap ?? 0) + (queues?.prealloc ?? 0) + (this.kv?.queued ?? 0);
    return running + waiting + travelling + outside;
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
    const choice = collector.add({
      ...generation,
      streamInterval: this.options.streamInterval,
      maxTokens: this.pd?.role === "prefill" ? 1 : generation.maxTokens,
      speech: this.speech,
      source: this.#source(generation),
    });
    const sequence = new EngineSequence({
      prompt: generation.prompt,
      salt: generation.salt,
      cacheLimit: generation.cacheLimit,
      listener: choice,
      arrivedMs: this.options.clock.now(),
    });
    choice.sequence = sequence;
    const { bootstrap, transfer } = generation;
    if (transfer !== undefined && this.kv?.submit(sequence, choice, transfer.params, transfer.id) === true) {
      return choice;
    }
    if (bootstrap !== undefined && !this.#mayStart(sequence, choice, bootstrap)) return choice;
    if (this.pd === undefined || bootstrap === undefined) this.scheduler.submit(sequence);
    else this.pd.submit(sequence, choice, bootstrap);
    return choice;
  }

  /** Checks what SGLang's scheduler checks of a request with a meeting place. */
  #mayStart(sequence: EngineSequence, choice: Choice, bootstrap: Bootstrap): boolean {
    const version = versionNumber(this.version);
    const fake = bootstrap.host === FAKE_BOOTSTRAP_HOST;
    if (fake && version >= SGLANG.fakeHostForgets) {
      sequence.inserts = false;
      // The tree is what carries a prompt from chunk to chunk: without it, the first one is computed for ever.
      if (sequence.promptLength > this.scheduler.options.maxBatchedTokens) {
        this.die();
        return false;
      }
    }
    if (this.pd === undefined || bootstrap.room !== undefined || fake) return true;
    const word = version >= SGLANG.errorEvents ? "bootstrap" : "boostrap";
    const message = "Invalid request: Disaggregated request received without " +
      `${word} room id. req.rid='${bootstrap.rid}'`;
    choice.fail({ status: 400, message });
    return false;
  }

  /** Stops a sequence wherever it is. */
  abort(sequence: EngineSequence): void {
    if (this.pd === undefined) this.scheduler.abort(sequence);
    else this.pd.abort(sequence);
  }

  /** A request that ends the engine; the promise stays pending. */
  die(): Promise<never> {
    return this.#hooks.die();
  }

  /** Freezes everything, as a dead process would. */
  kill(): void {
    this.scheduler.kill();
    this.pd?.close();
    this.kv?.close();
  }

  #connector(options: PdOptions, hooks: BackendHooks): KvConnector {
    const host = reachable(options.bootstrapHost);
    const port = options.bootstrapPort ?? SIDE_CHANNEL_PORT;
    // Servers of the same seed, and those that come back, still have ids of their own: KV is found by them.
    const nth = options.fabric.nextKvServer();
    const hex = new Random(this.options.seed).stream(`simulator/${this.model}/engine ${nth}`).hex(32);
    return new KvConnector({
      die: () => void this.die(),
      strike: hooks.strike,
      clock: this.options.clock,
      cost: this.cost,
      scheduler: this.scheduler,
      fabric: options.fabric,
      engineId: [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join(
        "-",
      ),
      host,
      port,
      speedup: this.options.speedup ?? 1,
      loadFailurePolicy: options.loadFailurePolicy ?? "fail",
      sourceOf: (prompt) => new HashedSource(this.speech, prompt, this.model, undefined),
      randomHex: (length) => this.randomHex(length),
    });
  }

  #role(options: PdOptions, hooks: BackendHooks): PdRole {
    const engine: PdEngine = {
      die: () => void this.die(),
      strike: hooks.strike,
      clock: this.options.clock,
      cost: this.cost,
      scheduler: this.scheduler,
      fabric: options.fabric,
      host: options.bootstrapHost ?? "127.0.0.1",
      port: options.bootstrapPort ?? BOOTSTRAP_PORT,
      version: versionNumber(this.version),
      bootstrapTimeoutMs: options.bootstrapTimeoutMs ?? 300_000,
      waitingTimeoutMs: options.waitingTimeoutMs ?? 300_000,
      reservedDecodeTokens: options.reservedDecodeTokens ?? 512,
      decodeRadixCache: options.decodeRadixCache ?? false,
      speedup: this.options.speedup ?? 1,
    };
    if (options.role === "prefill") return new PrefillRole(engine);
    return new DecodeRole(
      engine,
      (_, prompt) => new HashedSource(this.speech, prompt, this.model, undefined),
    );
  }

  /** The prompt text of a conversation. */
  renderChat(messages: readonly Json[], body: JsonObject): string {
    const templateArguments: Record<string, Json> = isJsonObject(body["chat_template_kwargs"])
      ? { ...body["chat_template_kwargs"] }
      : {};
    if (Array.isArray(body["tools"]) && body["tools"].length > 0) templateArguments["tools"] = body["tools"];
    const flat = messages.map(flatMessage);
    if (body["continue_final_message"] !== true) {
      return this.tokenizer.renderChat(flat, { templateArguments });
    }
    const text = this.tokenizer.renderChat(toBeContinued(flat), { templateArguments });
    return textToContinue(text) ?? text;
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
    return new FixedSource(this.#idsOf(answer), speech.endId, hashed);
  }

  #idsOf(answer: ScriptedAnswer): readonly number[] {
    let ids = this.#scriptedIds.get(answer);
    if (ids === undefined) this.#scriptedIds.set(answer, ids = this.tokenizer.encode(answer.text));
    return ids;
  }
}

/** The host under which others are told to look. */
function reachable(host = "127.0.0.1"): string {
  return host === ANY_HOST ? "127.0.0.1" : host;
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
