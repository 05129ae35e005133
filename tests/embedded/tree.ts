import { SystemClock } from "../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { type Config, configSchema } from "../../cfgs/schema/config.ts";
import { startRouter } from "../../cli/kit/router/local_router.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Router } from "../../router/router.ts";
import { systemTransport } from "../../router/transport/system.ts";
import { fakeIo } from "../cli/fake_io.ts";
import { TINY_FOLDER } from "./tiny_model.ts";
import "../loopback.ts";

/** The names of the models; their weights are the same. */
const SIZES = ["small", "middle", "large"];

export interface TreeOptions {
  /** Incremental prefill. */
  readonly warm: boolean;
  readonly earlyExit?: JsonObject | undefined;
  readonly maxTokens?: number;
  /** The first member of each cluster writes only so much. */
  readonly firstTokens?: number;
  /** The root writes so much. */
  readonly rootTokens?: number;
}

/** A tree of 13 agents, as a configuration has it. */
function treeGraph(
  { warm, earlyExit, maxTokens = 24, firstTokens, rootTokens = maxTokens }: TreeOptions,
): object {
  const three = SIZES.map((model, index) => ({
    model,
    ...(index === 0 && firstTokens !== undefined ? { sampling: { max_tokens: firstTokens } } : {}),
  }));
  return {
    // What the tiny model says has no end of its own.
    sampling: { temperature: 0, max_tokens: maxTokens, ignore_eos: true },
    layers: [
      { clusters: 3, agents: three, prompt: "propose" },
      { agents: three, prompt: "aggregate" },
      { agents: [{ model: "large", sampling: { max_tokens: rootTokens } }], prompt: "synthesize" },
    ],
    incremental_prefill: { mode: warm ? "on" : "off" },
    early_exit: earlyExit,
  };
}

/** Trees over the same three embedded models of one computing thread each. */
function treesConfig(trees: Readonly<Record<string, TreeOptions>>): Config {
  return configSchema.parse({
    server: { log_level: "error" },
    models: Object.fromEntries(SIZES.map((name) => [name, {
      model: TINY_FOLDER,
      engine: "onnx",
      onnx: {
        file: "../tiny-qwen3-onnx/model.onnx",
        threads: 1,
        cache_bytes: 64 * 1024 * 1024,
        // Whatever else runs on this machine.
        background: false,
      },
    }])),
    graphs: Object.fromEntries(Object.entries(trees).map(([name, options]) => [name, treeGraph(options)])),
  });
}

/** Counts of the embedded servers. */
export interface EngineCounts {
  readonly busy: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
}

/** A served tree, asked over HTTP. */
export interface ServedTree {
  readonly url: string;
  readonly router: Router;
  /** All models together. */
  counts(): Promise<EngineCounts>;
  /** Waits until no model computes anything. */
  idle(): Promise<void>;
  /** Has each model write one token; gives how many models there are. */
  touch(): Promise<number>;
  ask(question: string, signal?: AbortSignal): Promise<{ text: string; usage: JsonObject }>;
  /** The last run, with prompts and texts. */
  record(): RunRecord | undefined;
}

/** Trees that are served by one router, by their names. */
export interface ServedTrees<Name extends string> {
  readonly trees: Readonly<Record<Name, ServedTree>>;
  close(): Promise<void>;
}

/** Serves trees: what one of them has had computed is in the cache of the others. */
export async function startTrees<Name extends string>(
  options: Readonly<Record<Name, TreeOptions>>,
): Promise<ServedTrees<Name>> {
  const network = systemTransport();
  const io = fakeIo({ clock: new SystemClock(), transport: network });
  try {
    const { router, url } = await startRouter(treesConfig(options), io, { host: "127.0.0.1", port: 0 });
    await router.ready();
    const names = Object.keys(options) as Name[];
    return {
      trees: Object.fromEntries(names.map((name) => [name, treeAt(router, url, name)])) as Record<
        Name,
        ServedTree
      >,
      close: async () => {
        await router.close();
        await network.close();
      },
    };
  } catch (error) {
    await network.close();
    throw error;
  }
}

/** Serves a tree for as long as `use` takes. */
export async function withTree(
  options: TreeOptions,
  use: (tree: ServedTree) => Promise<void>,
): Promise<void> {
  const { trees, close } = await startTrees({ moa: options });
  try {
    await use(trees.moa);
  } finally {
    await close();
  }
}

function treeAt(router: Router, url: string, name: string): ServedTree {
  const { transport, clock, models, moa } = router.services;
  const signal = new AbortController().signal;
  const counts = async (): Promise<EngineCounts> => {
    const sum = { busy: 0, promptTokens: 0, cachedTokens: 0, generatedTokens: 0 };
    for (const { config } of models.values()) {
      const { body } = await transport.send(
        { method: "GET", url: `${config.workers[0]}/metrics`, headers: {} },
        signal,
      );
      const decoder = new TextDecoder();
      let text = "";
      for await (const chunk of body) text += decoder.decode(chunk, { stream: true });
      const value = (name: string) => Number(new RegExp(`^vllm:${name}\\{.*\\} (.*)$`, "m").exec(text)?.[1]);
      sum.busy += value("num_requests_running") + value("num_requests_waiting");
      sum.promptTokens += value("prompt_tokens_total");
      sum.cachedTokens += value("prompt_tokens_cached_total");
      sum.generatedTokens += value("generation_tokens_total");
    }
    return sum;
  };
  return {
    url,
    router,
    counts,
    touch: async () => {
      for (const { config } of models.values()) {
        const body = JSON.stringify({ model: config.model, prompt: [5, 6], max_tokens: 1, ignore_eos: true });
        const headers = { "content-type": "application/json" };
        const url = `${config.workers[0]}/v1/completions`;
        const answer = await transport.send({ method: "POST", url, headers, body }, signal);
        if (answer.status !== 200) throw new Error(`status ${answer.status}`);
        for await (const _ of answer.body);
      }
      return models.size;
    },
    idle: async () => {
      while ((await counts()).busy > 0) await clock.sleep(2);
    },
    ask: async (question, left) => {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: name, messages: [{ role: "user", content: question }] }),
        signal: left ?? null,
      });
      const body: unknown = await response.json();
      if (!isJsonObject(body) || !response.ok) throw new Error(JSON.stringify(body));
      const [choice] = Array.isArray(body.choices) ? body.choices : [];
      const message = isJsonObject(choice) && isJsonObject(choice.message) ? choice.message : {};
      return { text: String(message.content), usage: isJsonObject(body.usage) ? body.usage : {} };
    },
    record: () => moa.get(moa.list()[0]?.id ?? "")?.record(),
  };
}
