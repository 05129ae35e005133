import { CanopyError } from "../../base/errors.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import { demoConfig, type DemoModel } from "./config.ts";
import { type DemoEngines, startDemoEngines } from "./engines.ts";
import { laboratoryDemo } from "./laboratory.ts";
import { REAL_QUESTIONS, realDemo } from "./real.ts";
import { type DemoPair, reportLines } from "./report.ts";
import { askAndShow, type DemoStage } from "./run.ts";
import { UsageError } from "../kit/args.ts";
import { listModels, serverUrl, streamChat } from "../kit/client.ts";
import { defineCommand, type OptionValues } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { reachableUrl, startRouter } from "../kit/router/local_router.ts";
import { announcement, serveUntilStopped } from "../kit/router/serve_loaded.ts";
import { colorsOf, LiveRegion, printable, wrap } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";
import { QUESTIONS } from "../../simulator/text/questions.ts";

/** With it the whole demonstration takes some 20 s on two cores. */
const DEFAULT_SPEEDUP = 4;

/** The questions of the demonstration, by their ids in the simulator's book. */
const WARM_UP_QUESTION = "machines";
const DEMO_QUESTIONS = ["eggs", "lily-pads", "language"] as const;

/** A question in all modes then takes some minutes on two cores. */
const REAL_MAX_TOKENS = 96;

const options = {
  url: {
    type: "text",
    value: "URL",
    help: "Use a real OpenAI-compatible endpoint instead of simulated engines",
  },
  real: {
    type: "flag",
    help: "Use real models in this process: small ones that come with Canopy, or those of --model",
  },
  yes: { type: "flag", help: "With --real --model: fetch their weights without asking" },
  model: {
    type: "list",
    value: "NAME",
    help: "Model at that endpoint, from the smallest to the largest; with --real a Hub id or a folder",
  },
  question: { type: "list", value: "TEXT", help: "Ask this instead of the three built-in questions" },
  speedup: {
    type: "number",
    value: "N",
    fraction: true,
    min: 0.01,
    help: `How many times faster than H200 GPUs the simulated engines run; ${DEFAULT_SPEEDUP} by default`,
  },
  "max-tokens": { type: "number", value: "N", min: 1, help: "Longest answer of an agent; 1024 by default" },
  "serve-only": {
    type: "flag",
    help: "Only serve the tree (moa), the dense baseline (moa-dense) and the models",
  },
  host: { type: "text", value: "HOST", help: "Address to listen on; 127.0.0.1 by default" },
  port: {
    type: "number",
    value: "PORT",
    min: 0,
    max: 65535,
    help: "Port to listen on; any free one by default",
  },
} as const;

/** `canopy demo`: the tour. */
export const demoCommand = defineCommand({
  name: "demo",
  summary: "See a tree of agents at work: no GPU, no network needed",
  maxArguments: 0,
  options,
  details:
    `The demonstration starts simulated engines of three sizes, serves a tree of 13 agents over them, asks it and
its all-to-all baseline of 19 agents the same questions over HTTP, and compares them. The key of a real endpoint
is taken from OPENAI_API_KEY. With --real nothing is simulated: three tiny models that come with Canopy answer ten
word problems in all modes, graded, without a network; with --model others do, which are fetched if need be.

Examples:
  canopy demo
  canopy demo --real
  canopy demo --real --model HuggingFaceTB/SmolLM2-135M-Instruct
  canopy demo --serve-only --port 8000
  canopy demo --url http://127.0.0.1:11434 --model qwen3:4b --model qwen3:8b`,
  run: async (values, _, io) => {
    checkOptions(values);
    const address = { host: values.host ?? "127.0.0.1", port: values.port ?? 0 };
    if (values.real) {
      if (values.model.length === 0) {
        const { question: questions, "max-tokens": maxTokens } = values;
        await laboratoryDemo({ questions, maxTokens, ...address }, io);
        return 0;
      }
      await realDemo({
        models: values.model,
        questions: values.question.length > 0 ? values.question : REAL_QUESTIONS,
        maxTokens: values["max-tokens"] ?? REAL_MAX_TOKENS,
        yes: values.yes,
        ...address,
      }, io);
      return 0;
    }
    const { url } = values;
    const simulated = url === undefined;
    const speedup = values.speedup ?? DEFAULT_SPEEDUP;
    const engines = simulated
      ? await startDemoEngines(io, speedup)
      : await endpoint(serverUrl(url), values.model, io);
    try {
      const config = demoConfig({
        models: engines.models,
        apiKey: simulated ? undefined : io.env.OPENAI_API_KEY,
        seeded: simulated,
        maxTokens: values["max-tokens"] ?? 1024,
        ...address,
      });
      await show({ config, models: engines.models, speedup: simulated ? speedup : undefined, values }, io);
      return 0;
    } finally {
      await engines.close();
    }
  },
});

type Values = OptionValues<typeof options>;

/** Throws `UsageError` for options that do not go together. */
function checkOptions(values: Values): void {
  if (values.yes && (!values.real || values.model.length === 0)) {
    throw new UsageError("Option --yes needs --real and --model: nothing else is fetched");
  }
  const simulated = values.url === undefined;
  if (values["serve-only"] && values.question.length > 0) {
    throw new UsageError("Option --question asks, and --serve-only only serves: leave out one");
  }
  if (values.real) {
    if (!simulated || values.speedup !== undefined || values["serve-only"]) {
      throw new UsageError(
        "Option --real goes together neither with --url nor with --speedup and --serve-only",
      );
    }
    return;
  }
  if (simulated && values.model.length > 0) {
    throw new UsageError("Option --model needs --url: the simulated engines have models of their own");
  }
  if (!simulated && values.model.length === 0) {
    throw new UsageError("Option --url needs --model: name at least one model of the endpoint");
  }
  if (!simulated && values.speedup !== undefined) {
    throw new UsageError("Option --speedup is for simulated engines: leave it out with --url");
  }
}

interface Shown {
  readonly config: Config;
  readonly models: readonly DemoModel[];
  /** Undefined for a real endpoint. */
  readonly speedup: number | undefined;
  readonly values: Values;
}

/** Serves the graphs, and unless nothing but that is wanted, asks them all questions. */
async function show({ config, models, speedup, values }: Shown, io: Io): Promise<void> {
  const { router, url } = await startRouter(config, io, config.server);
  try {
    await router.ready();
    if (values["serve-only"]) {
      io.out.write(announcement(config, router, url, io));
      return await serveUntilStopped(router, io);
    }
    const stage: DemoStage = {
      io,
      router,
      server: { url: reachableUrl(url), apiKey: undefined },
      timeScale: speedup ?? 1,
    };
    const ownQuestions = values.question.length > 0;
    io.out.write(`${introduction(models, url, speedup, io)}\n`);
    if (speedup !== undefined) await warmUp(stage);
    await tour(stage, ownQuestions ? values.question : DEMO_QUESTIONS.map(questionText));
    if (speedup !== undefined) io.out.write(`\n${disclaimer(speedup, ownQuestions, io.out.columns)}\n`);
  } finally {
    await router.close();
  }
}

/** The models of a real endpoint. Throws `CanopyError` when nothing can be asked there. */
async function endpoint(url: string, names: readonly string[], io: Io): Promise<DemoEngines> {
  await checkEndpoint(url, names, io);
  const models = names.map((name): DemoModel => ({ name, model: name, engine: "openai", url }));
  return { models, close: () => Promise.resolve() };
}

async function checkEndpoint(url: string, names: readonly string[], io: Io): Promise<void> {
  let listed: string[] = [];
  try {
    listed = await listModels(io.transport, { url, apiKey: io.env.OPENAI_API_KEY }, io.stop);
  } catch (error) {
    if (!CanopyError.is(error)) throw error;
    if (error.code === "server_unreachable") {
      throw new CanopyError(`Cannot reach a server at ${url}: start it, or correct --url`, {
        code: error.code,
        status: 502,
        cause: error,
      });
    }
    // Not every compatible server lists its models: the first question will tell.
  }
  const unknown = names.find((name) => listed.length > 0 && !listed.includes(name));
  if (unknown === undefined) return;
  const some = listed.length > 8 ? `${listed.slice(0, 8).join(", ")}, …` : listed.join(", ");
  throw new CanopyError(`The server at ${url} has no model ${unknown}: it lists ${some}; correct --model`, {
    code: "model_not_found",
    status: 404,
  });
}

function questionText(id: string): string {
  return QUESTIONS.find((known) => known.id === id)?.question ?? id;
}

/** Code that runs for the first time is slow, and the speedup would multiply that: one question is not counted. */
async function warmUp(stage: DemoStage): Promise<void> {
  const { io, server } = stage;
  const region = new LiveRegion(io.out);
  region.draw(["Warming up …"]);
  const messages = [{ role: "user", content: questionText(WARM_UP_QUESTION) }];
  for await (const _ of streamChat(io.transport, server, { model: "moa", messages }, io.stop));
  region.clear();
}

function introduction(
  models: readonly DemoModel[],
  url: string,
  speedup: number | undefined,
  io: Io,
): string {
  const what = speedup === undefined
    ? `Models: ${models.map((model) => model.name).join(", ")}.`
    : `Simulated engines (${speedup} times as fast as H200 GPUs): ` +
      `${models.map((model) => `${model.name} on ${model.engine}`).join(", ")}.`;
  const lines = [
    what,
    "Served: moa, a tree of 13 agents (9-3-1), and moa-dense, the all-to-all baseline of 19 agents (9-9-1).",
  ];
  const title = colorsOf(io.out, io.env).bold(`The router is listening on ${url}`);
  return [title, ...lines.flatMap((line) => wrap(line, io.out.columns))].join("\n");
}

/** Asks every question of both graphs, prints the tree's answers, and compares. */
async function tour(stage: DemoStage, questions: readonly string[]): Promise<void> {
  const { io, router, timeScale } = stage;
  const colors = colorsOf(io.out, io.env);
  const { graphs } = router.services.moa;
  const tree = graphs.get("moa");
  const dense = graphs.get("moa-dense");
  if (tree === undefined || dense === undefined) throw new Error("The demonstration's graphs are missing");
  const pairs: DemoPair[] = [];
  for (const [index, question] of questions.entries()) {
    const text = wrap(`Question ${index + 1} of ${questions.length}: ${printable(question)}`, io.out.columns);
    io.out.write(`\n${text.map((line) => colors.bold(line)).join("\n")}\n\n`);
    const ofTree = await askAndShow(stage, tree, question);
    const answer = wrap(printable(ofTree.answer.trim()), io.out.columns - 2).map((line) =>
      `  ${line}`.trimEnd()
    );
    io.out.write(`\n${colors.bold(`Answer after ${seconds(ofTree.latencyMs, timeScale)}`)}\n`);
    io.out.write(`${answer.join("\n")}\n\nThe same question, all-to-all:\n`);
    const ofDense = await askAndShow(stage, dense, question);
    pairs.push({ question, tree: ofTree, dense: ofDense });
  }
  const report = reportLines(pairs, { columns: io.out.columns, colors, timeScale });
  io.out.write(`\n${report.join("\n")}\n`);
}

function disclaimer(speedup: number, ownQuestions: boolean, columns: number): string {
  return [
    "Simulated: the engines, their answers, their token counts, and the time they take (a model fitted to " +
    `measurements of H200 GPUs). They run ${speedup} times as fast here, so all times above are what was ` +
    `measured, multiplied by ${speedup}.`,
    ...(ownQuestions
      ? [
        "The simulated models know the built-in questions only: what they answer to others is words at random, " +
        "of random length, and so are the latencies.",
      ]
      : []),
    "Real: the router, its HTTP API, the streaming, the order in which agents run, and the sums.",
  ].flatMap((paragraph) => wrap(paragraph, columns)).join("\n");
}
