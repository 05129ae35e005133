import { CanopyError } from "../../base/errors.ts";
import { demoConfig, type DemoModel } from "./demo_config.ts";
import { type DemoEngines, startDemoEngines } from "./demo_engines.ts";
import { REAL_MODELS, REAL_QUESTIONS, realDemo } from "./demo_real.ts";
import { type DemoPair, reportLines } from "./demo_report.ts";
import { askAndShow, type DemoStage } from "./demo_run.ts";
import { seconds } from "./tree_view.ts";
import { UsageError } from "../kit/args.ts";
import { listModels, serverUrl, streamChat } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { colorsOf, LiveRegion, printable, wrap } from "../kit/terminal.ts";
import { reachableUrl, startRouter } from "../serve/local_router.ts";
import { announcement, serveUntilStopped } from "../serve/serve_loaded.ts";
import { QUESTIONS } from "../../simulator/text/questions.ts";

/** With it the whole demonstration takes some 20 s on two cores. */
const DEFAULT_SPEEDUP = 4;

/** The questions of the demonstration, by their ids in the simulator's book. */
const WARM_UP_QUESTION = "machines";
const DEMO_QUESTIONS = ["eggs", "lily-pads", "language"] as const;

/** A question in all modes then takes some minutes on two cores. */
const REAL_MAX_TOKENS = 96;

/** `canopy demo`: the tour. */
export const demoCommand = defineCommand({
  name: "demo",
  summary: "See a tree of agents at work: no GPU, no network needed",
  maxArguments: 0,
  options: {
    url: {
      type: "text",
      value: "URL",
      help: "Use a real OpenAI-compatible endpoint instead of simulated engines",
    },
    real: { type: "flag", help: "Use real models in this process instead of simulated engines" },
    yes: { type: "flag", help: "With --real: fetch their weights without asking" },
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
  },
  details:
    `The demonstration starts simulated engines of three sizes, serves a tree of 13 agents over them, asks it and
its all-to-all baseline of 19 agents the same questions over HTTP, and compares them. The key of a real endpoint
is taken from OPENAI_API_KEY. With --real three small models are fetched, which then run in this process, and the
question is asked in all modes.

Examples:
  canopy demo
  canopy demo --real
  canopy demo --serve-only --port 8000
  canopy demo --url http://127.0.0.1:11434 --model qwen3:4b --model qwen3:8b`,
  run: async (values, _, io) => {
    if (values.yes && !values.real) {
      throw new UsageError("Option --yes needs --real: nothing else is fetched");
    }
    if (values.real) {
      if (values.url !== undefined || values.speedup !== undefined || values["serve-only"]) {
        throw new UsageError(
          "Option --real goes together neither with --url nor with --speedup and --serve-only",
        );
      }
      await realDemo({
        models: values.model.length > 0 ? values.model : REAL_MODELS,
        questions: values.question.length > 0 ? values.question : REAL_QUESTIONS,
        maxTokens: values["max-tokens"] ?? REAL_MAX_TOKENS,
        yes: values.yes,
        host: values.host ?? "127.0.0.1",
        port: values.port ?? 0,
      }, io);
      return 0;
    }
    const simulated = values.url === undefined;
    if (simulated && values.model.length > 0) {
      throw new UsageError("Option --model needs --url: the simulated engines have models of their own");
    }
    if (!simulated && values.model.length === 0) {
      throw new UsageError("Option --url needs --model: name at least one model of the endpoint");
    }
    if (!simulated && values.speedup !== undefined) {
      throw new UsageError("Option --speedup is for simulated engines: leave it out with --url");
    }
    const speedup = values.speedup ?? DEFAULT_SPEEDUP;
    const engines = values.url === undefined
      ? await startDemoEngines(io, speedup)
      : endpoint(serverUrl(values.url), values.model);
    try {
      if (values.url !== undefined) await checkEndpoint(serverUrl(values.url), values.model, io);
      const config = demoConfig({
        models: engines.models,
        apiKey: simulated ? undefined : io.env.OPENAI_API_KEY,
        seeded: simulated,
        maxTokens: values["max-tokens"] ?? 1024,
        host: values.host ?? "127.0.0.1",
        port: values.port ?? 0,
      });
      const { router, url } = await startRouter(config, io, config.server);
      try {
        await router.ready();
        if (values["serve-only"]) {
          io.out.write(announcement(config, router, url, io));
          await serveUntilStopped(router, io);
          return 0;
        }
        const stage: DemoStage = {
          io,
          router,
          server: { url: reachableUrl(url), apiKey: undefined },
          timeScale: simulated ? speedup : 1,
        };
        io.out.write(`${introduction(engines.models, url, simulated ? speedup : undefined, io)}\n`);
        if (simulated) await warmUp(stage);
        await tour(stage, values.question.length > 0 ? values.question : DEMO_QUESTIONS.map(questionText));
        if (simulated) {
          io.out.write(`\n${disclaimer(speedup, values.question.length > 0, io.out.columns)}\n`);
        }
        return 0;
      } finally {
        await router.close();
      }
    } finally {
      await engines.close();
    }
  },
});

function endpoint(url: string, names: readonly string[]): DemoEngines {
  const models = names.map((name): DemoModel => ({ name, model: name, engine: "openai", url }));
  return { models, close: () => Promise.resolve() };
}

/** Asks a real endpoint for its models. Throws `CanopyError` when nothing can be asked there. */
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
  io.err.write(`${url} does not list a model ${unknown}; it lists ${some}\n`);
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
