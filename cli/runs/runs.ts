import { UsageError } from "../kit/args.ts";
import { postJson } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import { commandGroup } from "../kit/command_group.ts";
import type { Io } from "../kit/io.ts";
import { serverOf, URL_OPTION } from "../kit/server_place.ts";
import { colorsOf, oneLine, printable, table, tableColumns } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";
import { askedRunId, getRun, LAST_RUN, listRuns } from "./asked_run.ts";
import { compared } from "./compared.ts";
import { exportCommand } from "./export.ts";
import { replayCommand } from "./replay.ts";
import { readShownRun, type RunSummary, type ShownRun } from "./shown_run.ts";
import { exitsOf, waterfall } from "./waterfall.ts";

const DEFAULT_LIMIT = 20;
const NO_TEXTS = "Its record has no prompts and answers: server.records.texts is false";
const JSON_OPTION = { json: { type: "flag", help: "Print what the server says as JSON" } } as const;

const listCommand = defineCommand({
  name: "runs list",
  summary: "List the runs that a server knows, live ones first",
  maxArguments: 0,
  options: {
    ...URL_OPTION,
    limit: {
      type: "number",
      value: "N",
      min: 1,
      help: `Most of them; ${DEFAULT_LIMIT} by default`,
    },
    model: { type: "text", value: "NAME", help: "Only runs of this graph" },
    state: {
      type: "text",
      value: "STATE",
      choices: ["running", "done", "failed", "cancelled"],
      help: "Only these",
    },
    ...JSON_OPTION,
  },
  details: `Examples:
  canopy runs list
  canopy runs list --state failed --url http://gpu1:8000`,
  run: async (values, _, io) => {
    const server = serverOf(values.url, io);
    const limit = values.limit ?? DEFAULT_LIMIT;
    const runs = await listRuns(server, { limit, state: values.state, graph: values.model }, io);
    if (values.json) io.out.write(`${JSON.stringify(runs, null, 2)}\n`);
    else if (runs.length === 0) io.out.write(`The server at ${server.url} knows no such run\n`);
    else io.out.write(`${listTable(runs, io).join("\n")}\n`);
    return 0;
  },
});

function listTable(runs: readonly RunSummary[], io: Io): string[] {
  const nowSeconds = (io.clock.unixEpochMs + io.clock.now()) / 1000;
  const rows = runs.map((run) => [
    run.id,
    run.graph,
    run.usage.degraded === undefined ? run.state : `${run.state}, degraded`,
    age(nowSeconds - run.created),
    run.duration_ms === undefined ? "" : seconds(run.duration_ms),
    String(run.usage.calls),
    String(run.usage.completion_tokens),
  ]);
  const right = "right" as const;
  return table(["run", "graph", "state", "age", "took", "calls", "tokens"], rows, [
    "left",
    "left",
    "left",
    right,
    right,
    right,
    right,
  ], tableColumns(io.out));
}

/** `12 s`, `4 min`, `3 h`, `2 d`. */
function age(passedSeconds: number): string {
  const steps = [[86_400, "d"], [3600, "h"], [60, "min"]] as const;
  const [unit, name] = steps.find(([length]) => passedSeconds >= length) ?? [1, "s"];
  return `${Math.max(0, Math.floor(passedSeconds / unit))} ${name}`;
}

const showCommand = defineCommand({
  name: "runs show",
  summary: "Show what each agent of a run did, and when",
  arguments: "[RUN]",
  maxArguments: 1,
  options: {
    ...URL_OPTION,
    texts: { type: "flag", help: "Print what each agent said, too" },
    ...JSON_OPTION,
  },
  details: `RUN is a run's id, as in an answer's x-canopy-run-id; without it the newest one.

Examples:
  canopy runs show
  canopy runs show run_0123456789abcdef --texts`,
  run: async (values, [id = LAST_RUN], io) => {
    const server = serverOf(values.url, io);
    const body = await getRun(server, id, io);
    if (values.json) io.out.write(`${JSON.stringify(body, null, 2)}\n`);
    else io.out.write(`${shown(readShownRun(body), values.texts, io).join("\n")}\n`);
    return 0;
  },
});

function shown(run: ShownRun, texts: boolean, io: Io): string[] {
  const colors = colorsOf(io.out, io.env);
  const { usage } = run;
  const cached = usage.cached_tokens === 0 ? "" : `, ${usage.cached_tokens} of them cached`;
  const took = run.duration_ms === undefined ? "" : ` in ${seconds(run.duration_ms)}`;
  return [
    colors.bold(`${run.id}: ${run.graph}, ${run.state}${took}`),
    `${usage.calls} calls, ${usage.prompt_tokens} tokens read${cached}, ${usage.completion_tokens} written, ` +
    `${usage.wasted_tokens} of them in vain${usage.cost === undefined ? "" : `; cost ${usage.cost}`}`,
    ...(run.error === undefined || run.error === null ? [] : [colors.red(oneLine(run.error.message))]),
    "",
    ...waterfall(run, io.out.columns, colors),
    ...exitsOf(run).map((line) => colors.dim(line)),
    ...(texts && !run.texts_kept ? ["", NO_TEXTS] : []),
    ...(texts && run.texts_kept
      ? run.agents.flatMap((
        { id, model, text },
      ) => ["", colors.cyan(`----- ${id} (${model}) -----`), printable(text).trim()])
      : []),
  ];
}

const diffCommand = defineCommand({
  name: "runs diff",
  summary: "Compare two runs: times, tokens, and what each agent said",
  arguments: "RUN RUN",
  maxArguments: 2,
  options: { ...URL_OPTION },
  details: `Example:
  canopy runs diff run_0123456789abcdef last`,
  run: async (values, [first, second], io) => {
    if (first === undefined || second === undefined) {
      throw new UsageError("runs diff needs two runs: RUN RUN");
    }
    const server = serverOf(values.url, io);
    const [a, b] = [
      readShownRun(await getRun(server, first, io)),
      readShownRun(await getRun(server, second, io)),
    ];
    io.out.write(`${compared(a, b, tableColumns(io.out)).join("\n")}\n`);
    return 0;
  },
});

const cancelCommand = defineCommand({
  name: "runs cancel",
  summary: "End a run that goes on, on all its engines",
  arguments: "RUN",
  maxArguments: 1,
  options: { ...URL_OPTION },
  details: `Example:
  canopy runs cancel last`,
  run: async (values, [id], io) => {
    if (id === undefined) throw new UsageError("runs cancel needs a run: RUN");
    const server = serverOf(values.url, io);
    const asked = await askedRunId(server, id, io);
    const path = `/v1/runs/${encodeURIComponent(asked)}/cancel`;
    await postJson(io.transport, server, { path, body: {} }, io.stop);
    io.out.write(`${asked} is cancelled\n`);
    return 0;
  },
});

/** `canopy runs`: what a server's runs did. */
export const runsCommand = commandGroup({
  name: "runs",
  summary: "List, show, compare, replay, export and cancel the runs of a server",
  noun: "action",
  example: "canopy runs show last",
  commands: [listCommand, showCommand, diffCommand, replayCommand, exportCommand, cancelCommand],
});
