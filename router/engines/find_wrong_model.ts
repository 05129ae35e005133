import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { askedJson, type ProbeOptions } from "./probe_get.ts";

/** A folder of the Hub's cache, which a server may name in place of the model: `…/models--Qwen--Qwen3-8B/snapshots/…`. */
const HUB_FOLDER = /\/models--([^/]+)--([^/]+)\/snapshots\//;
/** SGLang's clients write it for "whatever you serve". */
const ANY_MODEL = "default";

/**
 * The model that a worker serves in place of the configured one, as a sentence; undefined when it serves that one, or
 * does not say. Throws `EngineError` when it cannot be asked.
 */
export async function findWrongModel(options: ProbeOptions): Promise<string | undefined> {
  const { engine, model } = options.config;
  if (!tellsItsModel(engine) || model === ANY_MODEL) return undefined;
  const { served, paths } = listed(await askedJson(options, "/v1/models"));
  const names = [...served, ...paths.filter((path) => !served.includes(path))];
  // vLLM refuses every name that it does not list; SGLang answers all of them with what it has.
  const isRight = engine.startsWith("vllm")
    ? served.includes(model)
    : names.some((name) => isSameModel(name, model));
  if (served.length === 0 || isRight) return undefined;
  if (engine.startsWith("sglang")) {
    // Its list has only the name that it was given; the path is told elsewhere.
    const info = await askedJson(options, "/get_model_info") ?? await askedJson(options, "/model_info");
    const path = info?.model_path;
    if (typeof path !== "string") return undefined;
    if (isSameModel(path, model)) return undefined;
    if (!names.includes(path)) names.push(path);
  }
  return `it serves ${
    names.map((name) => `"${name}"`).join(", ")
  } and not "${model}": start the right model there, ` +
    "or set the model's `model` to a name that the server lists";
}

/** True for names of one model: equal but for case, or a path or repository that ends in the other. */
export function isSameModel(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase() || lastPart(one) === lastPart(other);
}

/** Servers of other kinds may answer to more names than they list. */
function tellsItsModel(engine: ModelConfig["engine"]): boolean {
  return engine.startsWith("vllm") || engine.startsWith("sglang");
}

function lastPart(name: string): string {
  const hub = HUB_FOLDER.exec(`${name}/`)?.[2];
  return (hub ?? name.replace(/\/+$/, "").split("/").at(-1) ?? name).toLowerCase();
}

/** The names of a model list, and the paths or repositories behind them. */
function listed(list: JsonObject | undefined): { readonly served: string[]; readonly paths: string[] } {
  const data: readonly Json[] = Array.isArray(list?.data) ? list.data : [];
  const models = data.filter(isJsonObject);
  const names = (field: "id" | "root") =>
    [
      ...new Set(
        models.map((model) => model[field]).filter((name) => typeof name === "string" && name !== ""),
      ),
    ].map(String);
  return { served: names("id"), paths: names("root") };
}
