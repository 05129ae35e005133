import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { readText } from "../../base/read_body.ts";
import { type IncomingResponse, type Transport, withoutPassword } from "../../base/transport.ts";
import type { AnswerEmbedding, AnswerFeatures, Embedder } from "./embedder.ts";
import {
  type EmbeddingEndpoint,
  embeddingsEndpoint,
  type HttpEmbedding,
  MAX_ANSWER_BYTES,
  poolingEndpoint,
  tokenizeEndpoint,
} from "./embedding_endpoint.ts";
import { OnnxFeatures } from "./onnx_features.ts";
import { NoFeatures, PooledFeatures, RowFeatures } from "./row_features.ts";
import { FeatureSum } from "../onnx/feature_sum.ts";
import type { SimilarityGraphs } from "../onnx/similarity_graphs.ts";
import type { ScorerFacts } from "../scorer.ts";

/** Longest wait for one text, in ms. */
const REQUEST_MS = 30_000;
/** Most characters for each token that is embedded: texts are cut before they are sent. */
const CHARACTERS_PER_TOKEN = 8;

/** An endpoint that embeds texts, and the way to it. */
export interface HttpEmbedderOptions {
  readonly clock: Clock;
  readonly transport: Transport;
  /** Base address, such as http://gpu1:8000. */
  readonly url: string;
  readonly model: string;
  readonly apiKey?: string | undefined;
  readonly span: "all" | "tail";
  readonly maxTokens: number;
  /** Compares token features; without them it is done by loops, a hundred times slower. */
  readonly graphs?: SimilarityGraphs | undefined;
  /** Applied to pooled vectors. */
  readonly transform?: ((pooled: Float32Array) => Float32Array) | undefined;
  readonly signal: AbortSignal;
}

/**
 * An embedding model that an engine serves. Token features where it has them (vLLM's `/pooling` with `token_embed`;
 * the last row is the pooled vector, as in Qwen3-Embedding), else pooled vectors, of which only `cosine` is known.
 * An answer is sent when it is complete.
 */
export class HttpEmbedder implements Embedder {
  readonly facts: ScorerFacts;
  readonly concurrency = 8;
  readonly #options: HttpEmbedderOptions;
  readonly #endpoint: EmbeddingEndpoint;
  readonly #closed = new AbortController();

  private constructor(options: HttpEmbedderOptions, endpoint: EmbeddingEndpoint, dimensions: number) {
    this.#options = options;
    this.#endpoint = endpoint;
    this.facts = {
      embedder: "http",
      model: options.model,
      details: {
        url: withoutPassword(options.url),
        endpoint: endpoint.path,
        token_features: endpoint.rows,
        dimensions,
      },
    };
  }

  /** Finds out which endpoint there is. Throws 502 `embeddings_unavailable` when there is none. */
  static async open(options: HttpEmbedderOptions): Promise<HttpEmbedder> {
    const failures: string[] = [];
    for (const endpoint of [poolingEndpoint, embeddingsEndpoint]) {
      try {
        const { dimensions } = await ask(options, endpoint, "Hello", options.signal);
        return new HttpEmbedder(options, endpoint, dimensions);
      } catch (error) {
        options.signal.throwIfAborted();
        failures.push(`${endpoint.path}: ${messageOf(error)}`);
      }
    }
    throw new CanopyError(
      `Cannot embed with ${options.model} at ${withoutPassword(options.url)}: ${
        failures.join("; ")
      }; start an embedding model there, ` +
        "such as `vllm serve MODEL --runner pooling --pooler-config.task token_embed`, or correct scorer.url",
      { code: "embeddings_unavailable", status: 502 },
    );
  }

  open(): AnswerEmbedding {
    const { span, maxTokens } = this.#options;
    const limit = CHARACTERS_PER_TOKEN * maxTokens;
    const controller = new AbortController();
    const signal = AbortSignal.any([controller.signal, this.#closed.signal]);
    let text = "";
    return {
      append: (piece) => {
        if (span === "tail") text = lastOf(text + piece, limit);
        else if (text.length < limit) text = firstOf(text + piece, limit);
        return Promise.resolve();
      },
      finish: () => this.#embed(text, signal),
      close: () => {
        text = "";
        controller.abort(new Error("The answer is not compared any more"));
      },
    };
  }

  close(): Promise<void> {
    this.#closed.abort(new Error("The scorer is closed"));
    return Promise.resolve();
  }

  async #embed(text: string, signal: AbortSignal): Promise<AnswerFeatures> {
    if (text.trim() === "") return new NoFeatures();
    const { graphs, transform = (vector) => vector } = this.#options;
    const { values, dimensions, tokens } = await this.#ask(text, signal);
    if (!values.every(Number.isFinite)) throw new Error("the endpoint gave numbers that are not finite");
    if (!this.#endpoint.rows) return new PooledFeatures(tokens, transform(values));
    const pooled = transform(values.slice(values.length - dimensions));
    if (graphs === undefined) return new RowFeatures(values, dimensions, pooled);
    const sum = new FeatureSum(graphs, dimensions);
    await sum.add(values);
    return new OnnxFeatures(graphs, (await sum.correlation()).correlation, pooled);
  }

  async #ask(text: string, signal: AbortSignal): Promise<HttpEmbedding> {
    const { model, span, maxTokens } = this.#options;
    const found = await ask(this.#options, this.#endpoint, text, signal);
    if (!this.#endpoint.rows || span === "tail" || found.tokens < maxTokens) return found;
    // vLLM 0.32 cuts the end token off with the rest, and there the model pools.
    const { path, body, read } = tokenizeEndpoint;
    const ids = read(await post(this.#options, path, body(model, text), signal));
    if (ids.length <= maxTokens) return found;
    return await ask(
      this.#options,
      this.#endpoint,
      [...ids.slice(0, maxTokens - 1), ...ids.slice(-1)],
      signal,
    );
  }
}

async function ask(
  options: HttpEmbedderOptions,
  endpoint: EmbeddingEndpoint,
  input: string | readonly number[],
  signal: AbortSignal,
): Promise<HttpEmbedding> {
  return endpoint.read(
    await post(options, endpoint.path, endpoint.body(options.model, input, options), signal),
  );
}

async function post(
  { clock, transport, url, apiKey }: HttpEmbedderOptions,
  path: string,
  body: JsonObject,
  parent: AbortSignal,
): Promise<JsonObject> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (apiKey !== undefined) headers["authorization"] = `Bearer ${apiKey}`;
  const late = new Error(`it did not answer within ${REQUEST_MS / 1000} s`);
  const { signal, release } = deadlineSignal(clock, REQUEST_MS, late, parent);
  try {
    const response = await transport.send({
      method: "POST",
      url: url.replace(/\/+$/, "").replace(/\/v1$/, "") + path,
      headers,
      body: JSON.stringify(body),
    }, signal);
    const answer = await jsonOf(response);
    if (response.status !== 200) throw new Error(refusalOf(response.status, answer));
    if (answer === undefined) throw new Error("its answer is not JSON");
    return answer;
  } finally {
    release();
  }
}

async function jsonOf({ body }: IncomingResponse): Promise<JsonObject | undefined> {
  const text = await readText(body, MAX_ANSWER_BYTES, "its answer");
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function refusalOf(status: number, answer: JsonObject | undefined): string {
  const error = answer?.["error"];
  const message = isJsonObject(error) ? error["message"] : answer?.["message"] ?? answer?.["detail"];
  return `it answered ${status}` + (typeof message === "string" ? `: ${message.slice(0, 300)}` : "");
}

/** Never half a character. */
function firstOf(text: string, length: number): string {
  return text.length <= length ? text : text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}

function lastOf(text: string, length: number): string {
  return text.length <= length ? text : text.slice(-length).replace(/^[\udc00-\udfff]/, "");
}
