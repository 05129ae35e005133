import { stat } from "node:fs/promises";
import { join } from "node:path";
import { laboratoryQuestions } from "../../bench/datasets/laboratory/laboratory_questions.ts";
import { gradeOf } from "../../bench/laboratory/grade.ts";
import {
  denseGraph,
  LABORATORY_SIZES,
  laboratoryConfig,
  type LaboratoryGraphOptions,
  singleGraph,
  treeGraph,
} from "../../bench/laboratory/laboratory_graphs.ts";
import { exitLines, shortAnswer } from "./exit_lines.ts";
import { askAndShow, type DemoRun, type DemoStage } from "./run.ts";
import { drawnRun } from "./drawn_run.ts";
import { drawRun } from "../kit/run_view/tree_view.ts";
import { streamChat } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { reachableUrl, startRouter } from "../kit/router/local_router.ts";
import { colorsOf, fit, printable, table, tableColumns, wrap } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";
import { shippedFolder } from "../../ml/hub/shipped_models.ts";

/** The draw of the questions, and how many are asked by default. */
const QUESTIONS = { split: "test", seed: "demo" } as const;
const COUNT = 10;

/** The graphs in the order in which a question is asked of them. */
const MODES: Readonly<Record<string, string>> = {
  best: "best single model (l)",
  "moa-1": "#1 all-to-all 9-9-1",
  "moa-2": "#2 tree 9-3-1",
  "moa-3": "#3 tree, incremental prefill",
  "moa-4": "#4 tree, incremental prefill, early exit",
};

/** Options of the demonstration with the models that come with Canopy. */
export interface LaboratoryDemoOptions {
  /** Asked instead of the test set's, and not graded. */
  readonly questions: readonly string[];
  /** Questions of the test set. */
  readonly count?: number | undefined;
  readonly maxTokens: number | undefined;
  readonly host: string;
  readonly port: number;
}

/** One question; the answer is known where it is of the test set. */
interface Asked {
  readonly question: string;
  readonly answer: string | undefined;
}

/** Asks the models that come with Canopy in every mode: real tokens, mistakes and times, graded where that can be done. */
export async function laboratoryDemo(options: LaboratoryDemoOptions, io: Io): Promise<void> {
  const { host, port, maxTokens, count = COUNT } = options;
  // Other seeds in each mode: no answer of one is in the cache of another.
  const graph = (mode: number, more: Partial<LaboratoryGraphOptions> = {}) => ({
    seed: 1000 * mode,
    maxTokens,
    ...more,
  });
  const config = laboratoryConfig({
    best: singleGraph("l", maxTokens),
    "moa-1": denseGraph(graph(1)),
    "moa-2": treeGraph(graph(2)),
    "moa-3": treeGraph(graph(3, { prefill: true })),
    "moa-4": treeGraph(graph(4, { prefill: true, earlyExit: { metric: "agreement" } })),
  }, { server: { host, port, log_level: "error" } });
  const asked: readonly Asked[] = options.questions.length > 0
    ? options.questions.map((question) => ({ question, answer: undefined }))
    : laboratoryQuestions({ ...QUESTIONS, count });
  const { router, url } = await startRouter(config, io, config.server);
  try {
    await router.ready();
    io.out.write(`${await introduction(url, io)}\n`);
    const server = { url: reachableUrl(url), apiKey: undefined };
    const stage: DemoStage = { io, router, server, timeScale: 1, passing: true };
    await warmUp(stage);
    const runs = new Map<string, DemoRun[]>(Object.keys(MODES).map((mode) => [mode, []]));
    for (const [index, one] of asked.entries()) {
      await askInAllModes(stage, one, `Question ${index + 1} of ${asked.length}`, runs);
    }
    io.out.write(
      `\n${lastTree(runs, io).join("\n")}\n\n${figures(runs, asked, tableColumns(io.out)).join("\n")}\n`,
    );
    io.out.write(`\n${closing(asked, io).join("\n")}\n`);
  } finally {
    await router.close();
  }
}

async function introduction(url: string, io: Io): Promise<string> {
  const sizes = await Promise.all(LABORATORY_SIZES.map(async (name) => {
    const folder = await shippedFolder(`laboratory/${name}`);
    const { size } = await stat(join(folder ?? "", "model.safetensors"));
    // Two bytes each.
    return `${name} (${(size / 2e6).toFixed(1)} million parameters)`;
  }));
  const lines = [
    `Models that come with Canopy, in this process: ${
      sizes.join(", ")
    }. Trained from nothing for word problems ` +
    "like these, and for nothing else.",
    "Nothing is simulated: tokens, mistakes, exits and times are real, and of this machine.",
  ];
  const title = colorsOf(io.out, io.env).bold(`The router is listening on ${url}`);
  return [title, ...lines.flatMap((line) => wrap(line, io.out.columns))].join("\n");
}

/** What runs for the first time is slow: one question is not counted. */
async function warmUp({ io, server }: DemoStage): Promise<void> {
  const messages = [{ role: "user", content: "There are 2 cups. Ida buys 3 cups. How many cups are there?" }];
  for (const model of Object.keys(MODES)) {
    for await (const _ of streamChat(io.transport, server, { model, messages }, io.stop));
  }
}

async function askInAllModes(
  stage: DemoStage,
  { question, answer }: Asked,
  title: string,
  runs: ReadonlyMap<string, DemoRun[]>,
): Promise<void> {
  const { io, router } = stage;
  const colors = colorsOf(io.out, io.env);
  const head = wrap(`${title}: ${printable(question)}`, io.out.columns).map((line) => colors.bold(line));
  const known = answer === undefined ? [] : [`Right is ${answer}.`];
  io.out.write(`\n${[...head, ...known].join("\n")}\n`);
  for (const [mode, list] of runs) {
    const graph = router.services.moa.graphs.get(mode);
    if (graph === undefined) throw new Error(`The graph ${mode} is missing`);
    const run = await askAndShow(stage, graph, question);
    list.push(run);
    const { stated, right } = gradeOf({ question, answer: answer ?? "" }, run.answer);
    const mark = answer === undefined ? " " : right ? colors.green("✓") : colors.red("✗");
    const said = printable(stated === undefined ? run.answer.trim() : shortAnswer(stated.text));
    const took = seconds(run.latencyMs, 1);
    const tokens = `${run.record.usage.completionTokens} tokens`;
    const room = Math.max(8, io.out.columns - 68);
    io.out.write(
      `  ${mark} ${fit(MODES[mode] ?? mode, 40)} ${fit(took, 8, "right")} ${fit(tokens, 12, "right")}  ${
        fit(said, room).trimEnd()
      }\n`,
    );
    for (const line of exitLines(run)) {
      io.out.write(
        `${wrap(line, io.out.columns - 6).map((part) => `      ${colors.dim(part)}`).join("\n")}\n`,
      );
    }
  }
}

/** The last question's tree with early exit, agent by agent. */
function lastTree(runs: ReadonlyMap<string, readonly DemoRun[]>, io: Io): string[] {
  const run = runs.get("moa-4")?.at(-1);
  if (run === undefined) return [];
  const colors = colorsOf(io.out, io.env);
  const nowMs = run.latencyMs;
  return [
    colors.bold("The last run of #4, agent by agent"),
    ...drawRun(drawnRun(run.graph, run.record), { columns: io.out.columns, colors, nowMs, timeScale: 1 }),
  ];
}

/** The table of modes: right answers, means of times and tokens, exits. */
function figures(
  runs: ReadonlyMap<string, readonly DemoRun[]>,
  asked: readonly Asked[],
  columns: number,
): string[] {
  const rows = [...runs].map(([mode, list]) => {
    const sum = (of: (run: DemoRun) => number) => list.reduce((total, run) => total + of(run), 0);
    const right = list.filter((run, index) => {
      const { question, answer } = asked[index]!;
      return answer !== undefined && gradeOf({ question, answer }, run.answer).right;
    }).length;
    const graded = asked.some(({ answer }) => answer !== undefined);
    return [
      MODES[mode] ?? mode,
      graded ? `${right} of ${list.length}` : "–",
      seconds(sum(({ latencyMs }) => latencyMs) / list.length, 1),
      seconds(sum(({ firstTextMs }) => firstTextMs) / list.length, 1),
      String(Math.round(sum(({ record }) => record.usage.completionTokens) / list.length)),
      String(sum(({ record }) => record.exits.filter(({ exit }) => exit).length)),
    ];
  });
  const head = ["measured on this machine", "right", "answer", "first token", "tokens", "exits"];
  return table(head, rows, ["left", "right", "right", "right", "right", "right"], columns);
}

function closing(asked: readonly Asked[], io: Io): string[] {
  const graded = asked.some(({ answer }) => answer !== undefined);
  return [
    "answer, first token: mean times as the client saw them; tokens: written by all agents, the mean of a question",
    graded
      ? `Right and wrong are counted on ${asked.length} questions of the test set, which no model was trained on: too ` +
        "few to rank modes. canopy bench laboratory asks hundreds and gives intervals and tests."
      : "Your own questions cannot be graded, and the models know nothing but word problems like those they were " +
        "trained on: leave out --question to see these.",
  ].flatMap((line) => wrap(line, io.out.columns));
}
