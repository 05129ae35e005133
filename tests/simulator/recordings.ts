import { readFileSync } from "node:fs";
import { VirtualClock } from "../../base/clock.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { OutgoingRequest } from "../../base/transport.ts";
import { HfTokenizer } from "../../ml/tokenizers/hf_tokenizer.ts";
import type { Simulator, SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { createSimulator } from "../../simulator/simulator.ts";

/** One exchange with a real server. */
export interface Recording {
  readonly request: {
    readonly method: OutgoingRequest["method"];
    readonly path: string;
    readonly headers: Record<string, string>;
    readonly body?: Json;
    readonly raw?: string;
  };
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

function readJson(path: string) {
  return JSON.parse(readFileSync(new URL(`../fixtures/${path}`, import.meta.url), "utf8"));
}

/** A file of recordings. */
export function recordingFile<T>(name: string): T {
  return readJson(`simulator/${name}.json`);
}

/** Recorded exchanges by case name. */
export function recordings(name: string): Map<string, Recording> {
  return new Map(Object.entries<Recording>(readJson(`simulator/${name}.json`)));
}

/** The tokenizer of the model that the recorded servers served. */
export const tinyTokenizer = new HfTokenizer("tiny-qwen3", {
  tokenizer: readJson("tiny-qwen3/tokenizer.json"),
  config: readJson("tiny-qwen3/tokenizer_config.json"),
  chatTemplate: undefined,
});

/** What came back, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Sends a request and reads the whole answer. */
export async function ask(
  simulator: Simulator,
  request: {
    method?: OutgoingRequest["method"];
    path: string;
    headers?: Record<string, string>;
    body?: Json;
    raw?: string;
  },
  signal: AbortSignal = new AbortController().signal,
): Promise<Answer> {
  const text = request.raw ?? (request.body === undefined ? undefined : JSON.stringify(request.body));
  const response = await simulator.handle({
    method: request.method ?? (text === undefined ? "GET" : "POST"),
    url: `http://simulator${request.path}`,
    headers: request.headers ?? { "content-type": "application/json" },
    ...(text === undefined ? {} : { body: text }),
  }, signal);
  const decoder = new TextDecoder();
  let body = "";
  for await (const chunk of response.body) body += decoder.decode(chunk, { stream: true });
  return { status: response.status, headers: response.headers, body };
}

/** The answer's JSON object. */
export function json(answer: Answer): JsonObject {
  const value: Json = JSON.parse(answer.body);
  if (!isJsonObject(value)) throw new TypeError(`Expected a JSON object, got ${answer.body}`);
  return value;
}

/** A value deep inside a JSON value, such as `at(body, "choices", 0, "text")`. */
export function at(value: Json, ...path: (string | number)[]): Json {
  let here: Json | undefined = value;
  for (const step of path) {
    if (Array.isArray(here)) here = typeof step === "number" ? here[step] : undefined;
    else {here = isJsonObject(here ?? null) && typeof here === "object" && here !== null
        ? here[String(step)]
        : undefined;}
  }
  return here ?? null;
}

/** The payloads of a stream's events, without the closing `[DONE]`. Throws when the framing is not the servers'. */
export function eventsOf(body: string): Json[] {
  if (!body.endsWith("data: [DONE]\n\n")) throw new Error(`Stream without [DONE]: ${body.slice(-80)}`);
  return body.split("\n\n").slice(0, -2).map((event) => {
    if (!event.startsWith("data: {") || event.includes("\n")) throw new Error(`Not one event: ${event}`);
    return JSON.parse(event.slice("data: ".length));
  });
}

/** A simulator under a virtual clock, and a way to run something against it. */
export function simulated(options: Partial<SimulatorOptions> = {}): {
  simulator: Simulator;
  clock: VirtualClock;
  run: <T>(main: () => Promise<T>) => Promise<T>;
} {
  const clock = new VirtualClock();
  const simulator = createSimulator({
    engine: "vllm",
    models: ["tiny-qwen3"],
    cost: "instant",
    seed: "test",
    ...options,
    clock: options.clock ?? clock,
  });
  return { simulator, clock, run: (main) => clock.run(main, { limitMs: 3_600_000 }) };
}

/** `count` ids from `first` on. */
export function ids(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => (first + i) % 1900);
}
