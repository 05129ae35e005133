import { basename } from "node:path";
import { CanopyError } from "../../base/errors.ts";
import { handOverMs, MODE_NAMES, modeGraphs } from "../../bench/experiments/embedded_tree.ts";
import { configSchema } from "../../cfgs/schema/config.ts";
import { askAndShow, type DemoRun, type DemoStage } from "./run.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { progressOf } from "../kit/pull_progress.ts";
import { reachableUrl, startRouter } from "../kit/router/local_router.ts";
import { colorsOf, printable, table, wrap } from "../kit/terminal.ts";
import { seconds, sizeText } from "../kit/units.ts";
import { isFolder } from "../../ml/hub/cache.ts";
import { hubCache, hubEndpoint, hubIsOffline } from "../../ml/hub/environment.ts";
import { findExport, type OnnxFiles } from "../../ml/hub/onnx_files.ts";
import { pullModel, pullSize } from "../../ml/hub/pull.ts";
import { weightFiles } from "../../ml/hub/weight_files.ts";

/** Questions that even the smallest of them knows something about. */
export const REAL_QUESTIONS: readonly string[] = ["Why is the sky blue?"];

const REVISION = "main";

/** The built-in prompts are for models that follow long instructions; small ones repeat them. */
const SHORT_PROMPT = {
  append: "Some people answered:\n[responses]\n\nGive the best answer in one or two sentences.",
  responses: { item: "- [answer]", separator: "\n" },
};

/**
 * Put before the question in each mode, so that its prompts are new from their first words on: what one mode has
 * computed must not spare the next one anything.
 */
const OPENINGS: Readonly<Record<string, string>> = {
  "moa-1": "Question: ",
  "moa-2": "A question: ",
  "moa-3": "My question: ",
  "moa-4": "One question: ",
};

/** Options of the demonstration with real models. */
export interface RealDemoOptions {
  /** Hub ids or folders, from the smallest to the largest. */
  readonly models: readonly string[];
  readonly questions: readonly string[];
  readonly maxTokens: number;
  /** Fetch without asking. */
  readonly yes: boolean;
  readonly host: string;
  readonly port: number;
}

/**
 * Real models in this process: fetches their weights if they are not here, asks every question in each mode, and
 * prints what that took. Throws 400 `not_fetched` when it may not fetch.
 */
export async function realDemo(options: RealDemoOptions, io: Io): Promise<void> {
  await fetchModels(options, io);
  const names = options.models.map((_, index) => `m${index + 1}`);
  const config = configSchema.parse({
    server: { host: options.host, port: options.port, log_level: "error" },
    models: Object.fromEntries(names.map((name, index) => [name, {
      model: options.models[index],
      engine: "onnx",
      // Small models that think first do not come to an answer in so few tokens.
      chat_template_arguments: { enable_thinking: false },
    }])),
    prompts: { aggregate: SHORT_PROMPT, synthesize: SHORT_PROMPT },
    graphs: modeGraphs(
      names,
      [options.maxTokens],
      // As SmolLM's authors advise; livelier ones lose the thread.
      { temperature: 0.2, top_p: 0.9 },
      { metric: "agreement" },
    ),
  });
  const { router, url } = await startRouter(config, io, config.server);
  try {
    await router.ready();
    const colors = colorsOf(io.out, io.env);
    const files = await Promise.all(options.models.map((model) => exportOf(model, io)));
    const lines = names.map((name, index) =>
      `${name}: ${options.models[index]} (${basename(files[index]?.path ?? "")})`
    );
    io.out.write(
      `${colors.bold(`The router is listening on ${url}`)}\nReal models in this process: ${
        lines.join(", ")
      }.\n`,
    );
    const stage: DemoStage = {
      io,
      router,
      server: { url: reachableUrl(url), apiKey: undefined },
      timeScale: 1,
    };
    const runs = new Map<string, DemoRun[]>(Object.keys(MODE_NAMES).map((mode) => [mode, []]));
    for (const [index, question] of options.questions.entries()) {
      const text = `Question ${index + 1} of ${options.questions.length}: ${printable(question)}`;
      io.out.write(`\n${wrap(text, io.out.columns).map((line) => colors.bold(line)).join("\n")}\n`);
      for (const [mode, list] of runs) {
        const graph = router.services.moa.graphs.get(mode);
        if (graph === undefined) throw new Error(`The graph ${mode} is missing`);
        io.out.write(`\n${MODE_NAMES[mode]}\n`);
        const run = await askAndShow(stage, graph, `${OPENINGS[mode]}${question}`);
        list.push(run);
        io.out.write(`\nAnswer after ${seconds(run.latencyMs, 1)}\n`);
        io.out.write(
          `${wrap(printable(run.answer.trim()), io.out.columns - 2).map((line) => `  ${line}`).join("\n")}\n`,
        );
      }
    }
    io.out.write(`\n${figures(runs).join("\n")}\n`);
  } finally {
    await router.close();
  }
}

/** The table of modes: sums over all questions. */
function figures(runs: ReadonlyMap<string, readonly DemoRun[]>): string[] {
  const rows = [...runs].map(([mode, list]) => {
    const sum = (of: (run: DemoRun) => number) => list.reduce((total, run) => total + of(run), 0);
    const prompts = sum(({ record }) => record.usage.promptTokens);
    const cached = sum(({ record }) => record.usage.cachedTokens ?? 0);
    return [
      MODE_NAMES[mode] ?? mode,
      seconds(sum(({ latencyMs }) => latencyMs), 1),
      seconds(sum(({ firstTextMs }) => firstTextMs), 1),
      seconds(sum(({ graph, record }) => handOverMs(graph, record).get(graph.root.id) ?? NaN), 1),
      String(sum(({ record }) => record.usage.completionTokens)),
      `${Math.round(100 * cached / prompts)} %`,
    ];
  });
  return [
    ...table(
      ["measured on this machine", "answer", "its first token", "after its inputs", "tokens", "cached"],
      rows,
    ),
    "after its inputs: from the last answer that the last agent reads to its own first token",
    "tokens: written by all agents; cached: share of all prompts that was computed before they were sent",
  ];
}

async function fetchModels({ models, yes }: RealDemoOptions, io: Io): Promise<void> {
  const missing: string[] = [];
  for (const model of models) if (!await isHere(model, io)) missing.push(model);
  if (missing.length === 0) return;
  if (hubIsOffline(io.env)) {
    throw notFetched(`HF_HUB_OFFLINE forbids to fetch ${missing.join(", ")}`);
  }
  const pulls = missing.map((model) => ({
    transport: io.transport,
    clock: io.clock,
    signal: io.stop,
    env: io.env,
    model,
    revision: REVISION,
    choose: (names: readonly string[]) => weightFiles(model, names),
  }));
  const lines: string[] = [];
  let total = 0;
  for (const pull of pulls) {
    const bytes = await pullSize(pull);
    total += bytes;
    lines.push(`  ${pull.model}: ${sizeText(bytes)}`);
  }
  const what = `${sizeText(total)} from ${hubEndpoint(io.env)} to ${hubCache(io.env)}`;
  io.err.write(`These models are not on this machine:\n${lines.join("\n")}\n`);
  if (!yes) {
    if (!io.canAsk) throw notFetched(`it would fetch ${what}: say so with --yes`);
    const reply = await io.ask(`Fetch ${what}? [y/N] `);
    if (!/^y(es)?$/i.test(reply?.trim() ?? "")) throw notFetched("nothing was fetched");
  } else io.err.write(`Fetching ${what}\n`);
  for (const pull of pulls) {
    const progress = new Progress(io);
    try {
      await pullModel({ ...pull, onProgress: progressOf(progress, io) });
    } finally {
      progress.end();
    }
  }
}

async function isHere(model: string, io: Io): Promise<boolean> {
  try {
    return await exportOf(model, io) !== undefined;
  } catch (error) {
    // Other programs keep other files of the model in the same cache.
    if (await isFolder(model)) throw error;
    return false;
  }
}

/** The files that the embedded engine takes, too; throws as `findExport` does. */
async function exportOf(model: string, io: Io): Promise<OnnxFiles | undefined> {
  const purpose = { verb: "generate", setting: "its onnx.file" } as const;
  return await findExport({ model, revision: REVISION }, io.env, purpose);
}

function notFetched(why: string): CanopyError {
  return new CanopyError(
    `Cannot show real models: ${why}; --model FOLDER takes one that is here, and "canopy demo" needs none`,
    { code: "not_fetched", status: 400 },
  );
}
