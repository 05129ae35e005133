import { CanopyError } from "../base/errors.ts";
import { handOverMs, MODE_NAMES, modeGraphs } from "../bench/embedded_tree.ts";
import { configSchema } from "../cfgs/schema.ts";
import { hubCache, hubEndpoint, hubIsOffline } from "../hub/environment.ts";
import { findExport } from "../hub/onnx_files.ts";
import { pullModel, pullSize } from "../hub/pull.ts";
import { weightFiles } from "../hub/weights.ts";
import { Progress } from "./bench_output.ts";
import { askAndShow, type DemoRun, type DemoStage } from "./demo_run.ts";
import type { Io } from "./io.ts";
import { reachableUrl, startRouter } from "./local_router.ts";
import { progressOf, sizeText } from "./models.ts";
import { colorsOf, printable, table, wrap } from "./terminal.ts";
import { seconds } from "./tree_view.ts";

/** Models of three sizes that a laptop runs, from the smallest to the largest. */
export const REAL_MODELS: readonly string[] = [
  "HuggingFaceTB/SmolLM2-135M-Instruct",
  "HuggingFaceTB/SmolLM2-360M-Instruct",
  "onnx-community/Qwen3-0.6B-ONNX",
];

const REVISION = "main";

/** What the demonstration with real models is asked to do. */
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
    graphs: modeGraphs(names, { temperature: 0.7, max_tokens: options.maxTokens }, { metric: "agreement" }),
  });
  const { router, url } = await startRouter(config, io, config.server);
  try {
    await router.ready();
    const colors = colorsOf(io.out, io.env);
    const lines = names.map((name, index) => `${name}: ${options.models[index]}`);
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
        // Another beginning in each mode: what one has computed must not spare the next one its prompts.
        const run = await askAndShow(stage, graph, `(${MODE_NAMES[mode]?.slice(1, 2)}) ${question}`);
        list.push(run);
        io.out.write(`\nAnswer after ${seconds(run.latencyMs, 1)}\n`);
        io.out.write(
          `${wrap(printable(run.answer.trim()), io.out.columns - 2).map((line) => `  ${line}`).join("\n")}\n`,
        );
      }
    }
    io.out.write(`\n${latencies(runs).join("\n")}\n`);
  } finally {
    await router.close();
  }
}

/** The table of modes: sums over all questions. */
function latencies(runs: ReadonlyMap<string, readonly DemoRun[]>): string[] {
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const rows = [...runs].map(([mode, list]) => [
    MODE_NAMES[mode] ?? mode,
    seconds(sum(list.map((run) => run.latencyMs)), 1),
    seconds(sum(list.map((run) => run.firstTextMs)), 1),
    seconds(sum(list.map((run) => handOverMs(run.graph, run.record).get(run.graph.root.id) ?? NaN)), 1),
    String(sum(list.map((run) => run.record.usage.completionTokens))),
  ]);
  return table(["measured on this machine", "latency", "first token", "last input to it", "tokens"], rows);
}

async function fetchModels({ models, yes }: RealDemoOptions, io: Io): Promise<void> {
  const missing: string[] = [];
  for (const model of models) {
    const purpose = { verb: "generate", setting: "its onnx.file" } as const;
    if (await findExport({ model, revision: REVISION }, io.env, purpose) === undefined) missing.push(model);
  }
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

function notFetched(why: string): CanopyError {
  return new CanopyError(
    `Cannot show real models: ${why}; "canopy demo" without --real needs none`,
    { code: "not_fetched", status: 400 },
  );
}
