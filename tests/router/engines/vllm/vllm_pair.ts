import type { Clock } from "../../../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../../../base/json.ts";
import { Random } from "../../../../base/random.ts";
import { type IncomingResponse, type OutgoingRequest, TransportError } from "../../../../base/transport.ts";
import { type ModelConfig, modelSchema } from "../../../../cfgs/schema/config.ts";
import { createEngine } from "../../../../router/engines/create.ts";
import type { Engine, EngineCapabilities } from "../../../../router/engines/engine.ts";
import { defaultCapabilities } from "../../../../router/engines/probe.ts";
import { type MemoryHandler, MemoryTransport } from "../../../../router/transport/memory.ts";
import type { Placement, PlacementOutcome } from "../../../../router/worker/placement.ts";

export const PREFILL = "http://prefill:8000";
export const DECODE = "http://decode:8000";

/** A place on the pair that notes how each half was given back. */
export class PairPlace implements Placement {
  readonly workerId = "d1";
  readonly url = DECODE;
  readonly prefill = { workerId: "p1", url: PREFILL, bootstrapHost: "prefill", bootstrapPort: undefined };
  readonly released: string[] = [];

  release(outcome: PlacementOutcome, side?: "prefill" | "decode"): void {
    this.released.push(side === undefined ? outcome : `${outcome} ${side}`);
  }

  promptRead(): void {}
}

export function pairConfig(): ModelConfig {
  return modelSchema.parse({
    model: "tiny-qwen3",
    engine: "vllm-pd",
    workers: [{ prefill: PREFILL, decode: DECODE }],
  });
}

/** The engine in front of two servers in this process. */
export function pairEngine(
  clock: Clock,
  servers: { readonly prefill: MemoryHandler | undefined; readonly decode: MemoryHandler | undefined },
  capabilities: Partial<EngineCapabilities> = {},
): { engine: Engine; transport: MemoryTransport } {
  const config = pairConfig();
  const transport = new MemoryTransport((request) =>
    request.url.startsWith(PREFILL) ? servers.prefill : servers.decode
  );
  const engine = createEngine({
    config,
    pool: {},
    transport,
    clock,
    random: new Random("pair"),
    capabilities: { ...defaultCapabilities(config), version: "0.32.0", ...capabilities },
  });
  return { engine, transport };
}

/** What a server of the pair does instead of its work. */
export type Fault =
  | "ok"
  | { readonly status: number; readonly message?: string }
  | "refuse"
  | "reset"
  | "reset_in_body"
  | "hang";

/**
 * A pair that keeps to NIXL's rules, and notes every breach of them: a decode server checks nothing of what it is
 * given, answers wrong parameters with wrong text, and dies of a prompt that is longer than the one prefilled.
 */
export class FakePair {
  readonly log: string[] = [];
  readonly breaches: string[] = [];
  /** Requests under way, by side. */
  readonly running = { prefill: 0, decode: 0 };
  /** Prompts whose cache waits for a decode server, by `remote_request_id`. */
  readonly pinned = new Map<string, string>();
  /** What went to either side, path and body, in order. */
  readonly sent: { side: "prefill" | "decode"; path: string; id: string; body: JsonObject; raw: string }[] =
    [];
  times = { tokenizeMs: 1, prefillMs: 50, headMs: 5, tokenMs: 10, tokens: 4 };
  /** By the path, or `prefill` and `decode` for generations; served once per entry, in order. */
  faults: { prefill?: Fault[]; decode?: Fault[]; tokenize?: Fault[] } = {};
  /** The decode stream breaks behind so many tokens. */
  breakAfter = Infinity;
  givesParams = true;
  readonly #clock: Clock;
  #prompts = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Of every text the same ids: those of its characters, behind a BOS token. */
  static tokens(text: string): number[] {
    return [1, ...[...text].map((letter) => letter.codePointAt(0)! % 1000 + 2)];
  }

  readonly prefill: MemoryHandler = async (request, signal) => {
    const { path, body } = this.#note("prefill", request);
    if (path === "/tokenize") {
      const broken = await this.#fault(this.faults.tokenize, request, signal);
      if (broken !== undefined) return broken;
      await this.#clock.sleep(this.times.tokenizeMs, signal);
      const text = typeof body.prompt === "string" ? body.prompt : JSON.stringify(body.messages);
      return json(200, { count: 1, max_model_len: 8192, tokens: FakePair.tokens(text) });
    }
    return await this.#running("prefill", signal, async (end) => {
      const broken = await this.#fault(this.faults.prefill, request, signal);
      if (broken !== undefined) return end(broken);
      await this.#clock.sleep(this.times.prefillMs, signal);
      const ids = body.prompt;
      if (
        body.stream !== false || body.max_tokens !== 1 || "stream_options" in body || "min_tokens" in body
      ) {
        this.breaches.push(`a prefill of ${JSON.stringify(body)}`);
      }
      if (!Array.isArray(ids)) throw new Error("the prefill server was to tokenise");
      const asked = body.kv_transfer_params;
      const keep = isJsonObject(asked) && asked.do_remote_decode === true && this.givesParams;
      const id = `cmpl-${request.headers["x-request-id"]}-${++this.#prompts}`;
      if (keep) this.pinned.set(id, JSON.stringify(ids));
      const usage = {
        prompt_tokens: ids.length,
        completion_tokens: 1,
        prompt_tokens_details: { cached_tokens: Math.floor((ids.length - 1) / 2) },
      };
      // A number that double precision cannot hold, and a field that nobody knows.
      const params = keep
        ? `{"do_remote_prefill": true,"remote_request_id":"${id}","big":12345678901234567890,"new":{"x":[1.0]}}`
        : "null";
      return end(
        text(
          200,
          `{"choices":[{"text":"x","finish_reason":"length"}],"usage":${JSON.stringify(usage)},` +
            `"kv_transfer_params":${params}}`,
        ),
      );
    });
  };

  readonly decode: MemoryHandler = async (request, signal) => {
    const { path, body, raw } = this.#note("decode", request);
    return await this.#running("decode", signal, async (end) => {
      const broken = await this.#fault(this.faults.decode, request, signal);
      if (broken !== undefined) return end(broken);
      const ids = this.#check(path, body, raw);
      await this.#clock.sleep(this.times.headMs, signal);
      const response: IncomingResponse = {
        status: 200,
        headers: { "content-type": "text/event-stream" },
        body: this.#tokens(request.url, path, ids, signal),
      };
      return end(response);
    });
  };

  /** The ids that a decode reads; notes parameters that are not theirs, or not any more. */
  #check(path: string, body: JsonObject, raw: string): number {
    const params = body.kv_transfer_params;
    if (!isJsonObject(params)) return Array.isArray(body.prompt) ? body.prompt.length : 7;
    const ids = path === "/v1/completions" ? body.prompt : params.prompt_token_ids;
    const id = String(params.remote_request_id);
    if (this.pinned.get(id) !== JSON.stringify(ids)) {
      this.breaches.push(`${id} is not pinned for ${JSON.stringify(ids)}`);
    }
    this.pinned.delete(id);
    if (!raw.includes('"big":12345678901234567890,"new":{"x":[1.0]}')) this.breaches.push(`changed: ${raw}`);
    return Array.isArray(ids) ? ids.length : 0;
  }

  #note(side: "prefill" | "decode", request: OutgoingRequest) {
    const path = new URL(request.url).pathname;
    const raw = typeof request.body === "string" ? request.body : new TextDecoder().decode(request.body);
    const entry = { side, path, id: request.headers["x-request-id"] ?? "", body: JSON.parse(raw), raw };
    this.sent.push(entry);
    this.log.push(`${side} ${path}`);
    return entry;
  }

  /** Counts a request as running until its answer ends, or its client leaves. */
  async #running(
    side: "prefill" | "decode",
    signal: AbortSignal,
    work: (end: (response: IncomingResponse) => IncomingResponse) => Promise<IncomingResponse>,
  ): Promise<IncomingResponse> {
    this.running[side]++;
    let over = false;
    const stop = () => {
      if (over) return;
      over = true;
      this.running[side]--;
    };
    signal.addEventListener("abort", () => {
      if (!over) this.log.push(`${side} closed`);
      stop();
    }, { once: true });
    try {
      return await work((response) => {
        async function* body(): AsyncGenerator<Uint8Array> {
          try {
            yield* response.body;
          } finally {
            stop();
          }
        }
        return { ...response, body: body() };
      });
    } catch (error) {
      stop();
      throw error;
    }
  }

  async #fault(
    list: Fault[] | undefined,
    request: OutgoingRequest,
    signal: AbortSignal,
  ): Promise<IncomingResponse | undefined> {
    const fault = list?.shift();
    if (fault === undefined || fault === "ok") return undefined;
    if (fault === "refuse") throw new TransportError("connect_failed", request.url);
    if (fault === "reset") throw new TransportError("reset_before_head", request.url);
    if (fault === "hang") await this.#clock.sleep(Infinity, signal);
    if (fault === "reset_in_body") {
      return { status: 200, headers: { "content-type": "application/json" }, body: brokenOff(request.url) };
    }
    if (typeof fault === "string") return undefined;
    return json(fault.status, { error: { message: fault.message ?? "no", param: "temperature" } });
  }

  async *#tokens(url: string, path: string, promptTokens: number, signal: AbortSignal) {
    const encoder = new TextEncoder();
    const chat = path === "/v1/chat/completions";
    for (let n = 1; n <= this.times.tokens; n++) {
      await this.#clock.sleep(this.times.tokenMs, signal);
      if (n > this.breakAfter) throw new TransportError("reset_in_body", url);
      const finish_reason = n === this.times.tokens ? "length" : null;
      const choice = chat
        ? { index: 0, delta: { content: "a" }, finish_reason, token_ids: [n] }
        : { index: 0, text: "a", finish_reason, token_ids: [n] };
      yield encoder.encode(`data: ${JSON.stringify({ choices: [choice] })}\n\n`);
    }
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: this.times.tokens,
      // What a decode server of an older version says: all that it has fetched.
      prompt_tokens_details: { cached_tokens: promptTokens },
    };
    yield encoder.encode(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  }
}

async function* brokenOff(url: string): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(new TextEncoder().encode('{"id":'));
  throw new TransportError("reset_in_body", url);
}

function json(status: number, body: JsonObject): IncomingResponse {
  return text(status, JSON.stringify(body));
}

function text(status: number, body: string): IncomingResponse {
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(new TextEncoder().encode(body));
  }
  return { status, headers: { "content-type": "application/json" }, body: pieces() };
}
